// The device one learner computes on: a CPU with an allocator of its own, kernels of
// its own, and as many threads as it is given.
//
// It carries the name of the session's CPU, so that one placed graph serves every
// learner and the central model alike, and it shares the session's resource manager:
// queues, iterators and tables exist once per session, while each learner's variables
// live in a container of its own. Derives from Device, not LocalDevice: the first
// LocalDevice of a process fixes a global thread pool.
//
// Kernels run inline on a thread that executes the graph; with several threads they
// share their loops among those. The completion of an asynchronous kernel is posted to
// the learner's queue, so that the graph continues on the learner's own thread and
// never inside the call that completed the kernel (a queue serves several learners in
// one call). Only where several threads execute the graph and one of them completes the
// kernel, which is usual, does it go on there: what follows goes to those threads.
// Thread-compatible: one learning task at a time.
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

// The threads that a learner computes on.
struct LearnerThreads {
  // What its kernels share their work among. 1: the thread that executes the kernel,
  // and no other. More: so many of the learner's own. 0: those of the session's CPU,
  // where a stock session computes.
  int count = 1;
  // What executes its graph. 1: the learner's own thread. More: so many beside it, as
  // in a stock session.
  int graph = 1;
  std::vector<int> cpus;  // that they are bound to; empty: any
};

class LearnerCpuDevice : public tensorflow::Device, public LearnerDevice {
 public:
  // Says that the calling thread executes a task of the learner.
  class ScopedTask {
   public:
    explicit ScopedTask(const LearnerCpuDevice* device)
        : before_(std::exchange(executing_, device)) {}
    ~ScopedTask() { executing_ = before_; }

   private:
    const LearnerCpuDevice* const before_;
  };

  // `central`: the session's CPU, whose name, locality and resource manager this
  // device takes over; must outlive it. `completions`: not owned, must outlive it.
  LearnerCpuDevice(int learner, tensorflow::Device* central,
                   CompletionQueue* completions);
  ~LearnerCpuDevice() override;

  // From here on tasks are executed, and from there on not. What a data pipeline keeps
  // of the device after a task works in between, too. `allocator`: not owned, must live
  // until then.
  void Begin(tensorflow::Allocator* allocator, const LearnerThreads& threads);
  void End();

  // That of the learner, for its tasks, its constants and its copies of variables.
  tensorflow::Allocator* own_allocator() const { return allocator_; }
  // The same inside a task; elsewhere, as in a thread that fetches data ahead, the
  // session's.
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

  bool waits_inline_ = true;  // for data, since nothing else could go on meanwhile
  static thread_local const LearnerCpuDevice* executing_;

  tensorflow::Device* const central_;
  tensorflow::Allocator* allocator_ = nullptr;
  CompletionQueue* const completions_;
  std::unique_ptr<InlinePool> inline_pool_;               // of one thread, or
  std::unique_ptr<tensorflow::thread::ThreadPool> pool_;  // null: the session's CPU's
  tensorflow::DeviceBase::CpuWorkerThreads worker_threads_;
  std::unique_ptr<Eigen::ThreadPoolDevice> eigen_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_CPU_LEARNER_CPU_DEVICE_H_
