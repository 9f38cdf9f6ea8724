// The device one learner computes on: a CPU with one thread (the learner's own), an
// allocator of its own and kernels of its own.
//
// It carries the name of the session's CPU, so that one placed graph serves every
// learner and the central model alike, and it shares the session's resource manager:
// queues, iterators and tables exist once per session, while each learner's variables
// live in a container of its own. Derives from Device, not LocalDevice: the first
// LocalDevice of a process fixes a global thread pool.
//
// Kernels run inline on the thread that executes the graph. The completion of an
// asynchronous kernel is posted to the learner's queue, so that the graph continues
// on the learner's own thread and never inside the call that completed the kernel (a
// queue serves several learners in one call). Thread-compatible: one learning task at a
// time.
#ifndef TENSORBOW_CC_DEVICE_CPU_LEARNER_CPU_DEVICE_H_
#define TENSORBOW_CC_DEVICE_CPU_LEARNER_CPU_DEVICE_H_

#include <memory>

#include "cc/device/learner_device.h"
#include "cc/support/completion_queue.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/lib/core/threadpool_interface.h"

namespace tensorbow {

class LearnerCpuDevice : public tensorflow::Device, public LearnerDevice {
 public:
  // `central`: the session's CPU, whose name, locality and resource manager this
  // device takes over; must outlive it. `allocator`, `completions`: not owned, must
  // outlive it.
  LearnerCpuDevice(int learner, tensorflow::Device* central,
                   tensorflow::Allocator* allocator, CompletionQueue* completions);
  ~LearnerCpuDevice() override;

  tensorflow::ResourceMgr* resource_manager() override;
  tensorflow::Allocator* GetAllocator(tensorflow::AllocatorAttributes) override;
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

  tensorflow::ResourceMgr* const resources_;
  tensorflow::Allocator* const allocator_;
  CompletionQueue* const completions_;
  std::unique_ptr<InlinePool> inline_pool_;
  std::unique_ptr<tensorflow::thread::ThreadPool> pool_;
  tensorflow::DeviceBase::CpuWorkerThreads worker_threads_;
  std::unique_ptr<Eigen::ThreadPoolDevice> eigen_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_CPU_LEARNER_CPU_DEVICE_H_
