// The CPU device of one learner, with an allocator, kernels and a number of threads of
// its own.
//
// It has the name of the session's CPU, so that one placed graph serves every learner
// and the central model alike. It shares the session's resource manager: queues,
// iterators and tables exist once per session, while each learner's variables live in a
// container of its own. Derives from Device, not LocalDevice: the first LocalDevice of
// a process fixes a global thread pool.
//
// Kernels run inline on a thread that executes the graph. If a learner has several
// threads, kernels share their loops among them. The completion of an asynchronous
// kernel is posted to the learner's queue, so that the graph continues on the learner's
// own thread. It never continues inside the call that completed the kernel: a queue
// serves several learners in one call. There is one exception: if several threads
// execute the graph, usually one of them completes the kernel. That thread continues,
// and schedules the successors on those threads. Thread-compatible: one learning task
// at a time.
#ifndef TENSORBOW_CC_DEVICE_CPU_LEARNER_CPU_DEVICE_H_
#define TENSORBOW_CC_DEVICE_CPU_LEARNER_CPU_DEVICE_H_

#include <memory>
#include <utility>
#include <vector>

#include "cc/device/learner_device.h"
#include "cc/support/completion_queue.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/lib/core/threadpool_interface.h"

namespace tensorbow {

// The threads on which a learner computes.
struct LearnerThreads {
  // The threads that kernels share their work among. 1: only the thread that executes
  // the kernel. More: this many threads of the learner. 0: the session's CPU threads,
  // as in a stock session.
  int count = 1;
  // The threads that execute the graph. 1: the learner's own thread. More: this many
  // beside it, as in a stock session.
  int graph = 1;
  std::vector<int> cpus;  // CPUs that they are bound to; empty: any
};

class LearnerCpuDevice : public tensorflow::Device, public LearnerDevice {
 public:
  // Marks the calling thread as executing a task of the learner.
  class ScopedTask {
   public:
    explicit ScopedTask(const LearnerCpuDevice* device)
        : before_(std::exchange(executing_, device)) {}
    ~ScopedTask() { executing_ = before_; }

   private:
    const LearnerCpuDevice* const before_;
  };

  // `central`: the session's CPU, whose name, locality and resource manager this device
  // adopts; must outlive it. `completions`: not owned, must outlive it.
  LearnerCpuDevice(int learner, tensorflow::Device* central,
                   CompletionQueue* completions);
  ~LearnerCpuDevice() override;

  // Start and end the time in which tasks are executed. Parts of the device that a data
  // pipeline keeps also work afterwards. `allocator`: not owned, must live until End().
  void Begin(tensorflow::Allocator* allocator, const LearnerThreads& threads);
  void End();

  // Returns the learner's allocator, for its tasks, constants and replicas.
  tensorflow::Allocator* own_allocator() const { return allocator_; }
  // Returns the learner's allocator inside a task, and the session's elsewhere, as in a
  // thread that prefetches data.
  tensorflow::Allocator* GetAllocator(tensorflow::AllocatorAttributes) override;

  tensorflow::ResourceMgr* resource_manager() override;
  const Eigen::ThreadPoolDevice* eigen_cpu_device() override { return eigen_.get(); }
  bool has_eigen_cpu_device() const override { return true; }
  absl::Status MakeTensorFromProto(const tensorflow::TensorProto& proto,
                                   tensorflow::AllocatorAttributes,
                                   tensorflow::Tensor* tensor) override;
  void CopyTensorInSameDevice(const tensorflow::Tensor* input,
                              tensorflow::Tensor* output,
                              const tensorflow::DeviceContext*,
                              tensorflow::StatusCallback done) override;
  void ComputeAsync(tensorflow::AsyncOpKernel* kernel,
                    tensorflow::OpKernelContext* context,
                    tensorflow::AsyncOpKernel::DoneCallback done) override;
  absl::Status Sync() override { return absl::OkStatus(); }

 private:
  class InlinePool;

  bool waits_inline_ = true;  // for data: one thread has nothing else to do
  static thread_local const LearnerCpuDevice* executing_;

  tensorflow::Device* const central_;
  tensorflow::Allocator* allocator_ = nullptr;
  CompletionQueue* const completions_;
  std::unique_ptr<InlinePool> inline_pool_;               // for one thread
  std::unique_ptr<tensorflow::thread::ThreadPool> pool_;  // null: the session CPU's
  tensorflow::DeviceBase::CpuWorkerThreads worker_threads_;
  std::unique_ptr<Eigen::ThreadPoolDevice> eigen_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_CPU_LEARNER_CPU_DEVICE_H_
