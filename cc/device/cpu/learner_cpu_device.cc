#include "cc/device/cpu/learner_cpu_device.h"

#include <pthread.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/barrier.h"
#include "absl/synchronization/blocking_counter.h"
#include "cc/support/cpus.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "unsupported/Eigen/CXX11/Tensor"

namespace tensorbow {

namespace tf = ::tensorflow;

// A pool that runs closures at once, on the thread that schedules them.
class LearnerCpuDevice::InlinePool : public tsl::thread::ThreadPoolInterface {
 public:
  void Schedule(std::function<void()> fn) override { fn(); }
  int NumThreads() const override { return 1; }
  int CurrentThreadId() const override { return 0; }
};

namespace {

tf::DeviceAttributes AttributesLike(const tf::Device& central) {
  return tf::Device::BuildDeviceAttributes(
      central.name(), tf::DEVICE_CPU, tf::Bytes(central.attributes().memory_limit()),
      central.attributes().locality(), "TensorBow learner");
}

// Makes a pool whose threads are bound to their CPUs and have names for debuggers.
std::unique_ptr<tf::thread::ThreadPool> NewPool(int learner,
                                                const LearnerThreads& threads) {
  auto pool = std::make_unique<tf::thread::ThreadPool>(
      tf::Env::Default(), absl::StrCat("tensorbow_learner_", learner), threads.count);
  const std::string name = absl::StrCat("tensorbow_", learner);
  // The barrier makes every thread run exactly one of these closures.
  absl::Barrier* const all = new absl::Barrier(threads.count);
  absl::BlockingCounter bound(threads.count);
  for (int i = 0; i < threads.count; ++i) {
    pool->Schedule([&threads, &name, &bound, all] {
      pthread_setname_np(pthread_self(), name.c_str());
      PinThisThread(threads.cpus);
      if (all->Block()) delete all;
      bound.DecrementCount();
    });
  }
  bound.Wait();
  return pool;
}

}  // namespace

thread_local const LearnerCpuDevice* LearnerCpuDevice::executing_ = nullptr;

LearnerCpuDevice::LearnerCpuDevice(int learner, tf::Device* central,
                                   CompletionQueue* completions)
    : Device(tf::Env::Default(), AttributesLike(*central)),
      LearnerDevice(learner),
      central_(central),
      completions_(completions) {
  set_tensorflow_cpu_worker_threads(&worker_threads_);
  End();
}

LearnerCpuDevice::~LearnerCpuDevice() = default;

void LearnerCpuDevice::Begin(tf::Allocator* allocator, const LearnerThreads& threads) {
  allocator_ = allocator;
  waits_inline_ = threads.graph == 1;
  const tf::DeviceBase::CpuWorkerThreads& shared =
      *central_->tensorflow_cpu_worker_threads();
  if (threads.count > 1) {
    pool_ = NewPool(learner(), threads);
    worker_threads_ = {threads.count, pool_.get()};
  } else if (threads.count == 1 || shared.num_threads == 1) {
    inline_pool_ = std::make_unique<InlinePool>();
    pool_ = std::make_unique<tf::thread::ThreadPool>(inline_pool_.get());
    worker_threads_ = {1, pool_.get()};
  }
  eigen_ = std::make_unique<Eigen::ThreadPoolDevice>(
      worker_threads_.workers->AsEigenThreadPool(), worker_threads_.num_threads);
}

void LearnerCpuDevice::End() {
  worker_threads_ = *central_->tensorflow_cpu_worker_threads();
  eigen_ = std::make_unique<Eigen::ThreadPoolDevice>(
      worker_threads_.workers->AsEigenThreadPool(), worker_threads_.num_threads);
  pool_.reset();
  inline_pool_.reset();
  allocator_ = nullptr;
}

tf::ResourceMgr* LearnerCpuDevice::resource_manager() {
  return central_->resource_manager();
}

tf::Allocator* LearnerCpuDevice::GetAllocator(tf::AllocatorAttributes attributes) {
  return executing_ == this ? allocator_ : central_->GetAllocator(attributes);
}

absl::Status LearnerCpuDevice::MakeTensorFromProto(const tf::TensorProto& proto,
                                                   tf::AllocatorAttributes,
                                                   tf::Tensor* tensor) {
  tf::Tensor parsed;
  if (!parsed.FromProto(allocator_, proto)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Cannot parse tensor from proto: ", proto.ShortDebugString()));
  }
  *tensor = std::move(parsed);
  return absl::OkStatus();
}

void LearnerCpuDevice::CopyTensorInSameDevice(const tf::Tensor* input,
                                              tf::Tensor* output,
                                              const tf::DeviceContext*,
                                              tf::StatusCallback done) {
  if (input->NumElements() != output->NumElements()) {
    done(absl::InternalError(
        absl::StrCat("Cannot copy a tensor of shape ", input->shape().DebugString(),
                     " into one of shape ", output->shape().DebugString())));
    return;
  }
  tf::tensor::DeepCopy(*input, output);
  done(absl::OkStatus());
}

void LearnerCpuDevice::ComputeAsync(tf::AsyncOpKernel* kernel,
                                    tf::OpKernelContext* context,
                                    tf::AsyncOpKernel::DoneCallback done) {
  // tf.data's GetNext would switch to a background thread only to wait there. A learner
  // of one thread waits itself, and continues with the element still in its cache.
  if (waits_inline_ &&
      absl::StartsWith(kernel->type_string_view(), "IteratorGetNext")) {
    kernel->Compute(context);
    done();
    return;
  }
  kernel->ComputeAsync(context, [this, done = std::move(done)]() mutable {
    if (!waits_inline_ && executing_ == this) {
      done();
    } else {
      completions_->Post(std::move(done));
    }
  });
}

}  // namespace tensorbow
