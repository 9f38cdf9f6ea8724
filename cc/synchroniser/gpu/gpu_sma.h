// Synchronous model averaging (see sma.h) of learners on GPUs.
//
// A learner finishes a task when it has enqueued it on its compute stream; the
// synchroniser paces that on the host. On the device, events order what is enqueued:
//
//   compute stream of learner j            sync stream of its GPU
//   ---------------------------            ----------------------
//   … the update of iteration i−1
//   record ready[j]                  →     wait for ready[all learners of the GPU]
//   forward, backward of i                 prepare i: z from the replicas
//   wait for prepared                ←     record prepared
//   w ← w + u − α (w − z)
//
// So the averaging overlaps the learners' forward and backward passes. The first
// learner that needs it enqueues it, for all variables of the set and all GPUs. With
// several GPUs a reducer adds the GPUs' sums between; every GPU keeps the model, with
// the same bits.
//
// The current centre is prepared in every iteration, so that z is known should the
// iteration be discarded; the lagging one in iterations that correct.
//
// The values live on the GPUs (sma_elements.h says which and when), at addresses that
// do not change while the algorithm lives, so that captured CUDA graphs stay valid. The
// host's central model follows when Collect() is called, and leads where it has been
// written since.
//
// Owns its streams and device memory, not the learners' streams, which outlive it.
#ifndef TENSORBOW_CC_SYNCHRONISER_GPU_GPU_SMA_H_
#define TENSORBOW_CC_SYNCHRONISER_GPU_GPU_SMA_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cc/central_model/central_model.h"
#include "cc/device/gpu/cuda_event.h"
#include "cc/device/gpu/cuda_memory.h"
#include "cc/reducer/reducer.h"
#include "cc/support/mutex.h"
#include "cc/synchroniser/algorithm.h"
#include "cc/synchroniser/algorithms/device_sma.h"
#include "cc/synchroniser/algorithms/sma.h"
#include "cc/synchroniser/device_queue.h"
#include "cc/synchroniser/gpu/sma_passes.h"

namespace tensorbow {

// The GPUs of these learners, in the order in which they first occur.
std::vector<int> OrdinalsOf(const std::vector<LearnerStream>& learners);

class GpuSma : public Algorithm, public DeviceQueue {
 public:
  // `learners`: their streams are cudaStream_t. `central`: as in NewSma(). `reducer`:
  // among OrdinalsOf(learners), null if that is one.
  GpuSma(const SmaOptions& options, std::vector<LearnerStream> learners,
         CentralModel* central, std::unique_ptr<Reducer> reducer);
  ~GpuSma() override;

  // Algorithm. Slices are the host's: nothing is to be done for them.
  const Traits& traits() const override { return traits_; }
  void Remember(int learner, const TrainedSet& set, int member) override;
  void Correct(int learner, const TrainedSet& set, int member,
               bool remembered) override;
  void Complete(const TrainedSet& set, bool due,
                const std::vector<int>& present) override;
  void Reset(const TrainedSet& set, int member, const std::vector<int>& learners,
             const std::vector<int>& present) override;
  std::string Collect(int variable, const std::vector<void*>& replicas,
                      const std::vector<int>& present) override;

  // DeviceQueue. Enter() enqueues a wait on the learner's compute stream once a task. A
  // wait that becomes part of a CUDA graph serves that graph alone.
  void BeginRun(const TrainedSet& set) override;
  bool Enter(int learner, const Iteration& iteration, bool replays) override;
  void Finished(int learner) override;
  const void* Target(int learner, int variable) const override;
  void EndRun(const TrainedSet& set) override;
  std::string error() const override;

 private:
  // What the GPUs' values of a variable are; see CentralModel::Variable.
  struct State {
    int64_t version = -1;    // of the host's values that they come from
    bool is_newer = false;   // than the host's
    int64_t iterations = 0;  // completed
    int64_t averaged = 0;    // of these
    bool up_to_date() const { return averaged == iterations; }
  };
  struct LearnerWait {  // touched by its learner's thread only
    int64_t number = 0;
    bool captured = false;
  };

  // Everything that returns a CudaError returns a text. The constructor and the
  // destructor do without the lock: no other thread knows of the object.
  CudaError Open() TENSORBOW_REQUIRES(mu_);

  // --- Values (gpu_sma_values.cc).

  // Adds variables that are new to the central model; uploads those of `variables` that
  // the host leads with. Between runs.
  CudaError FollowHost(const std::vector<int>& variables) TENSORBOW_REQUIRES(mu_);
  CudaError AddVariables() TENSORBOW_REQUIRES(mu_);
  CudaError AddVariablesTo(SmaGpu* gpu) TENSORBOW_REQUIRES(mu_);
  CudaError Upload(int variable) TENSORBOW_REQUIRES(mu_);
  // The current centre: z ← that after all completed iterations. Between runs.
  CudaError BringUpToDate(int variable, const std::vector<void*>& replicas,
                          const std::vector<int>& present) TENSORBOW_REQUIRES(mu_);
  CudaError ResetLocked(const TrainedSet& set, int member,
                        const std::vector<int>& learners,
                        const std::vector<int>& present) TENSORBOW_REQUIRES(mu_);
  CudaError CollectLocked(int variable, const std::vector<void*>& replicas,
                          const std::vector<int>& present) TENSORBOW_REQUIRES(mu_);
  // The host's values ← the GPUs', where these are newer.
  CudaError Download(int variable) TENSORBOW_REQUIRES(mu_);
  bool HostLeads(int variable) const TENSORBOW_REQUIRES(mu_);

  // --- Iterations (gpu_sma.cc).

  // Enqueues the iteration unless that has been done. False after an error.
  bool Prepare(const Iteration& iteration) TENSORBOW_EXCLUDES(mu_);
  CudaError PrepareCurrent(const TrainedSet& set, const SmaPasses::Present& present)
      TENSORBOW_REQUIRES(mu_);
  CudaError PrepareLagging(const TrainedSet& set) TENSORBOW_REQUIRES(mu_);
  bool WaitOnStream(int learner, int64_t number);
  CudaError ExcludeLocked(const TrainedSet& set, const std::vector<int>& absent)
      TENSORBOW_REQUIRES(mu_);
  CudaError EndRunLocked(const TrainedSet& set) TENSORBOW_REQUIRES(mu_);
  // Makes the sync streams wait for what is on the compute streams; the other way
  // round, AwaitPrepared() after RecordPrepared().
  CudaError RecordReady(int learner);
  CudaError RecordAllReady();
  CudaError AwaitLearners();
  CudaError RecordPrepared();
  CudaError AwaitPrepared(int learner);

  // Notes an error for good, if there is one, and returns whether there is none.
  bool Check(const CudaError& error) TENSORBOW_EXCLUDES(mu_);
  bool CheckLocked(const CudaError& error) TENSORBOW_REQUIRES(mu_);
  // The decay with which z of the variable is to be taken in; negative if it is not.
  double AverageDecay(int variable) const TENSORBOW_REQUIRES(mu_);
  bool is_current() const { return centre_ == SmaOptions::Centre::kCurrent; }
  int num_learners() const { return static_cast<int>(learners_.size()); }
  SmaGpu& gpu_of(int learner) { return gpus_[gpu_index_[learner]]; }

  const SmaOptions::Centre centre_;
  const Traits traits_;
  const std::vector<LearnerStream> learners_;
  CentralModel* const central_;  // not owned
  const std::unique_ptr<Reducer> reducer_;
  std::vector<int> all_;        // learners
  std::vector<int> gpu_index_;  // by learner
  std::vector<CudaEvent> ready_;
  std::vector<LearnerWait> waits_;
  // Corrections of updates that do not correct by themselves: [variable][learner].
  std::vector<std::vector<CudaBuffer>> corrections_;

  mutable Mutex mu_;
  // Changed with mu_ held, between runs only: tasks read addresses and streams without
  // it, so that no annotation holds.
  std::vector<SmaGpu> gpus_;
  std::optional<SmaPasses> passes_ TENSORBOW_GUARDED_BY(mu_);
  std::vector<State> states_ TENSORBOW_GUARDED_BY(mu_);  // by variable of the model
  // The lagging centre has been, for an iteration that is not over.
  bool advanced_ TENSORBOW_GUARDED_BY(mu_) = false;
  std::string error_ TENSORBOW_GUARDED_BY(mu_);
  // The number of the iteration that has been prepared last; the release store in
  // Prepare() pairs with the acquire load there.
  std::atomic<int64_t> prepared_{0};
  // A learner has finished its task, or sat out, in an iteration that is not completed.
  std::atomic<bool> some_finished_{false};
  std::atomic<bool> failed_{false};  // error_ is not empty
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_GPU_GPU_SMA_H_
