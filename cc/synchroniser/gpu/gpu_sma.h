// Synchronous model averaging (see sma.h) of learners on GPUs.
//
// A learner finishes a task when it has enqueued it on its compute stream; the
// synchroniser paces that on the host. On the device, events order the streams:
//
//   compute stream of learner j            sync stream of its GPU
//   ---------------------------            ----------------------
//   … the update of iteration i−1
//   record ready[j]                  →     wait for ready[all learners of the GPU]
//   forward, backward of i                 prepare i: z from the replicas
//   wait for prepared                ←     record prepared
//   w ← w + u − α (w − z)
//
// So averaging overlaps the learners' forward and backward passes. The first learner
// that needs it enqueues it, for all variables of the set and all GPUs. On several GPUs
// a reducer adds up the GPUs' sums; every GPU keeps the model, with the same bits.
//
// Every iteration prepares the current centre, so that z is known if the iteration is
// discarded. Iterations that correct prepare the lagging one.
//
// The values are on the GPUs (sma_elements.h), at addresses that never change, so that
// captured CUDA graphs stay valid. Collect() updates the host's central model. The host
// leads after it has been written.
//
// Owns its streams and device memory. The learners' streams outlive it.
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

// Returns the GPUs of these learners, in the order in which they first occur.
std::vector<int> OrdinalsOf(const std::vector<LearnerStream>& learners);

class GpuSma : public Algorithm, public DeviceQueue {
 public:
  // `learners`: their streams are cudaStream_t. `central`: as in NewSma(). `reducer`:
  // among OrdinalsOf(learners), null if that is one.
  GpuSma(const SmaOptions& options, std::vector<LearnerStream> learners,
         CentralModel* central, std::unique_ptr<Reducer> reducer);
  ~GpuSma() override;

  // Algorithm. Slices belong to the host and need no preparation.
  const Traits& traits() const override { return traits_; }
  void Remember(int learner, const TrainedSet& set, int member) override;
  void Correct(int learner, const TrainedSet& set, int member,
               bool remembered) override;
  void Complete(const TrainedSet& set, bool due,
                const std::vector<int>& participants) override;
  void Reset(const TrainedSet& set, int member, const std::vector<int>& learners,
             const std::vector<int>& participants) override;
  std::string Collect(int variable, const std::vector<void*>& replicas,
                      const std::vector<int>& participants) override;

  // DeviceQueue. Enter() enqueues a wait on the learner's compute stream once a task. A
  // wait that becomes part of a CUDA graph serves that graph alone.
  void BeginRun(const TrainedSet& set) override;
  bool Enter(int learner, const Iteration& iteration, bool replays) override;
  void Finished(int learner) override;
  const void* Target(int learner, int variable) const override;
  void EndRun(const TrainedSet& set) override;
  std::string error() const override;

 private:
  // The state of a variable's values on the GPUs; see CentralModel::Variable.
  struct State {
    int64_t version = -1;    // of the host's values they come from
    bool is_newer = false;   // than the host's
    int64_t iterations = 0;  // completed
    int64_t averaged = 0;    // of these
    bool up_to_date() const { return averaged == iterations; }
  };
  struct LearnerWait {  // touched by its learner's thread only
    int64_t number = 0;
    bool captured = false;
  };

  // A CudaError is a text, empty on success. The constructor and the destructor need no
  // lock: no other thread knows the object.
  CudaError Open() TENSORBOW_REQUIRES(mu_);

  // --- Values (gpu_sma_values.cc).

  // Adds the central model's new variables; uploads those of `variables` that the host
  // has changed. Between runs.
  CudaError FollowHost(const std::vector<int>& variables) TENSORBOW_REQUIRES(mu_);
  CudaError AddVariables() TENSORBOW_REQUIRES(mu_);
  CudaError AddVariablesTo(SmaGpu* gpu) TENSORBOW_REQUIRES(mu_);
  CudaError Upload(int variable) TENSORBOW_REQUIRES(mu_);
  // Brings the current centre up to date with all completed iterations. Between runs.
  CudaError BringUpToDate(int variable, const std::vector<void*>& replicas,
                          const std::vector<int>& participants) TENSORBOW_REQUIRES(mu_);
  CudaError ResetLocked(const TrainedSet& set, int member,
                        const std::vector<int>& learners,
                        const std::vector<int>& participants) TENSORBOW_REQUIRES(mu_);
  CudaError CollectLocked(int variable, const std::vector<void*>& replicas,
                          const std::vector<int>& participants) TENSORBOW_REQUIRES(mu_);
  // Copies the GPUs' values to the host if they are newer.
  CudaError Download(int variable) TENSORBOW_REQUIRES(mu_);
  bool HostLeads(int variable) const TENSORBOW_REQUIRES(mu_);

  // --- Iterations (gpu_sma.cc).

  // Enqueues the iteration once. Returns false after an error.
  bool Prepare(const Iteration& iteration) TENSORBOW_EXCLUDES(mu_);
  CudaError PrepareCurrent(const TrainedSet& set,
                           const SmaPasses::Participants& participants)
      TENSORBOW_REQUIRES(mu_);
  CudaError PrepareLagging(const TrainedSet& set) TENSORBOW_REQUIRES(mu_);
  bool WaitOnStream(int learner, int64_t number);
  CudaError ExcludeLocked(const TrainedSet& set, const std::vector<int>& idle)
      TENSORBOW_REQUIRES(mu_);
  CudaError EndRunLocked(const TrainedSet& set) TENSORBOW_REQUIRES(mu_);
  // Make the sync streams wait for the compute streams and, with RecordPrepared() and
  // AwaitPrepared(), vice versa.
  CudaError RecordReady(int learner);
  CudaError RecordAllReady();
  CudaError AwaitLearners();
  CudaError RecordPrepared();
  CudaError AwaitPrepared(int learner);

  // Records an error permanently, if there is one. Returns whether there is none.
  bool Check(const CudaError& error) TENSORBOW_EXCLUDES(mu_);
  bool CheckLocked(const CudaError& error) TENSORBOW_REQUIRES(mu_);
  // Returns the decay of the variable's moving average; negative if z does not enter
  // it.
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
  // Stored corrections: [variable][learner].
  std::vector<std::vector<CudaBuffer>> corrections_;

  mutable Mutex mu_;
  // Changed with mu_ held, between runs only. Not annotated: tasks read addresses and
  // streams without it.
  std::vector<SmaGpu> gpus_;
  std::optional<SmaPasses> passes_ TENSORBOW_GUARDED_BY(mu_);
  std::vector<State> states_ TENSORBOW_GUARDED_BY(mu_);  // by variable of the model
  // True after the lagging centre has advanced for an iteration under way.
  bool advanced_ TENSORBOW_GUARDED_BY(mu_) = false;
  std::string error_ TENSORBOW_GUARDED_BY(mu_);
  // The number of the last prepared iteration. The release store in Prepare() pairs
  // with the acquire load there.
  std::atomic<int64_t> prepared_{0};
  // True after a learner has finished or skipped its task in an iteration under way.
  std::atomic<bool> some_finished_{false};
  std::atomic<bool> failed_{false};  // error_ is not empty
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_GPU_GPU_SMA_H_
