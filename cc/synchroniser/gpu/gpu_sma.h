// Synchronous model averaging (see sma.h) of learners on GPUs.
//
// A learner finishes a task when it has enqueued it on its compute stream; the base
// class paces that on the host. On the device, events order what is enqueued:
//
//   compute stream of learner j            sync stream of its GPU
//   ---------------------------            ----------------------
//   … the update of iteration i−1
//   record ready[j]                  →     wait for ready[all learners of the GPU]
//   forward, backward of i                 advance to i: Σ_j α (w_j − z), z ← z_next
//   wait for prepared                ←     record prepared
//   w ← w + u − α (w − z)
//
// So the averaging overlaps the learners' forward and backward passes. The first
// learner that needs it enqueues it, for all variables of the set and all GPUs. With
// several GPUs a reducer adds the GPUs' sums between; every GPU keeps the model, with
// the same bits.
//
// The values live on the GPUs (sma_elements.h says which and when), at addresses that
// do not change while the synchroniser lives, so that captured CUDA graphs stay valid.
// The host's central model follows when Collect() is called, and leads where it has
// been written since: Prepare() uploads what is new there.
//
// Owns its streams and device memory, not the learners' streams, which outlive it.
#ifndef TENSORBOW_CC_SYNCHRONISER_GPU_GPU_SMA_H_
#define TENSORBOW_CC_SYNCHRONISER_GPU_GPU_SMA_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cc/device/gpu/cuda_event.h"
#include "cc/device/gpu/cuda_memory.h"
#include "cc/device/gpu/cuda_stream.h"
#include "cc/reducer/reducer.h"
#include "cc/synchroniser/gpu/block_layout.h"
#include "cc/synchroniser/gpu/sma_elements.h"
#include "cc/synchroniser/synchroniser.h"

namespace tensorbow {

// Where a learner is: its GPU and, as a cudaStream_t, the stream its tasks execute on.
struct GpuLearner {
  int ordinal;
  void* compute_stream;
};

// The GPUs of these learners, in the order in which they first occur.
std::vector<int> OrdinalsOf(const std::vector<GpuLearner>& learners);

class GpuSma : public Synchroniser {
 public:
  // `reducer`: among OrdinalsOf(learners), null if that is one. REQUIRES: as Sma.
  GpuSma(std::vector<GpuLearner> learners, CentralModel* central,
         std::chrono::microseconds spin, double alpha, int64_t period,
         std::unique_ptr<Reducer> reducer);
  ~GpuSma() override;

  bool averages() const override { return true; }
  double alpha() const override { return alpha_; }
  std::string error() const override;

  // Enqueues the wait on the learner's compute stream once a task. A wait that becomes
  // part of a CUDA graph serves that graph alone: see EnterReplay().
  bool EnterAll(int learner, int member) override;
  bool EnterReplay(int learner) override;
  const void* DeviceTarget(int learner, int member) const override;
  void Restart(const TrainedSet& set) override;
  std::string Collect() override;

 protected:
  void Prepare(const TrainedSet& set) override;
  bool Due(const TrainedSet& set, int64_t iteration) const override;
  void Remember(int learner, const TrainedSet& set, int member) override;
  void Correct(int learner, const TrainedSet& set, int member,
               bool remembered) override;
  void Leaving(int learner) override;
  void Publish(const TrainedSet& set, const std::vector<int>& absent) override;
  void Ending(const TrainedSet& set, bool in_vain) override;
  // Slices are the host's.
  void PrepareNext(const TrainedSet&, int, int) override {}
  void Exclude(const TrainedSet&, int, const std::vector<int>&) override {}

 private:
  // A variable of the model on one GPU, in the accumulation type.
  struct Values {
    char* current;
    char* next;
    char* average;  // null if none is kept
  };
  // A trained set on one GPU.
  struct Table {
    std::vector<SmaMember> members;
    std::vector<const void*> weights;  // see SmaTable
    CudaBuffer members_buffer;
    CudaBuffer weights_buffer;
    CudaBuffer blocks_buffer;
    CudaBuffer flat;
  };
  // A trained set, by its variables.
  struct SetTables {
    std::unique_ptr<BlockLayout> layout;
    std::vector<Table> tables;  // by GPU
  };
  struct Gpu {
    int ordinal;
    std::vector<int> learners;
    CudaStream stream;
    CudaEvent prepared;
    std::vector<CudaBuffer> chunks;  // hold the values
    std::vector<Values> values;      // by variable of the model
  };
  // What the GPUs' values of a variable are; see CentralModel::Variable.
  struct State {
    int64_t version = -1;  // of the host's values that they come from
    bool newer = false;    // than the host's
    int64_t iterations = 0;
    int64_t taken_in = 0;  // into the average
  };
  struct LearnerWait {  // touched by its learner's thread only
    int64_t number = 0;
    bool captured = false;
  };

  // All of these return an error text. REQUIRES: mu_ is held.
  CudaError Open();
  CudaError AddVariables();
  CudaError AddVariablesTo(Gpu* gpu);
  CudaError Upload(int variable);
  CudaError PrepareLocked(const TrainedSet& set);
  CudaError TablesOf(const TrainedSet& set, SetTables** tables);
  CudaError MakeTable(const Gpu& gpu, const TrainedSet& set, const BlockLayout& layout,
                      Table* table);
  CudaError RefreshWeights(const Gpu& gpu, const TrainedSet& set,
                           const BlockLayout& layout, Table* table);
  CudaError AdvanceLocked(const TrainedSet& set);
  CudaError ExcludeLocked(const TrainedSet& set, const std::vector<int>& absent);
  CudaError RestartLocked(const TrainedSet& set);
  CudaError CollectLocked();
  // One launch, or a few, on every GPU.
  CudaError Launch(SmaPass pass, const TrainedSet& set, SetTables* tables,
                   const SmaArguments& arguments);
  CudaError LaunchOn(const Gpu& gpu, SmaPass pass, const TrainedSet& set,
                     SetTables* tables, size_t index, const SmaArguments& arguments);
  CudaError Reduce(SetTables* tables);
  // The sync streams wait for what is on the compute streams; the other way round.
  CudaError AwaitLearners();
  CudaError RecordPrepared();
  CudaError RecordReady(int learner);

  // Makes sure that the learner's iteration has been enqueued. False after an error.
  bool AdvanceTo(int learner);
  bool WaitOnStream(int learner);
  // Notes an error for good, if there is one, and returns whether there is none.
  bool Check(const CudaError& error);
  bool CheckLocked(const CudaError& error);
  // The decay with which z of the variable is to be taken in; negative if it is not.
  double AverageDecay(int variable) const;
  Gpu& gpu_of(int learner) { return gpus_[gpu_index_[learner]]; }

  const std::vector<GpuLearner> learners_;
  const double alpha_;
  const int64_t period_;
  const std::unique_ptr<Reducer> reducer_;
  std::vector<int> gpu_index_;  // by learner
  std::vector<CudaEvent> ready_;
  std::vector<LearnerWait> waits_;
  // Corrections of updates that do not correct by themselves: [variable][learner].
  std::vector<std::vector<CudaBuffer>> corrections_;

  mutable std::mutex mu_;
  // All below: guarded by mu_, but for addresses in `gpus_`, which are read while tasks
  // execute and change between runs only.
  std::vector<Gpu> gpus_;
  std::vector<State> states_;  // by variable of the model
  std::map<std::vector<int>, SetTables> tables_;
  bool under_way_ = false;  // an iteration that has been advanced to is not over
  std::string error_;
  // The number of the iteration that has been advanced to last; the release store in
  // AdvanceTo() pairs with the acquire load there.
  std::atomic<int64_t> advanced_to_{0};
  std::atomic<bool> failed_{false};  // error_ is not empty
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_GPU_GPU_SMA_H_
