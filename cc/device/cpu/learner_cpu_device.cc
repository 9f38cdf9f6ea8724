#define EIGEN_USE_THREADS
#include "cc/device/cpu/learner_cpu_device.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "unsupported/Eigen/CXX11/Tensor"

namespace tensorbow {

namespace tf = ::tensorflow;

// Runs what is scheduled at once, on the scheduling thread.
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

}  // namespace

LearnerCpuDevice::LearnerCpuDevice(int learner, tf::Device* central,
                                   tf::Allocator* allocator,
                                   CompletionQueue* completions)
    : Device(tf::Env::Default(), AttributesLike(*central)),
      LearnerDevice(learner),
      resources_(central->resource_manager()),
      allocator_(allocator),
      completions_(completions),
      inline_pool_(std::make_unique<InlinePool>()),
      pool_(std::make_unique<tf::thread::ThreadPool>(inline_pool_.get())),
      eigen_(std::make_unique<Eigen::ThreadPoolDevice>(inline_pool_.get(), 1)) {
  worker_threads_.num_threads = 1;
  worker_threads_.workers = pool_.get();
  set_tensorflow_cpu_worker_threads(&worker_threads_);
  set_eigen_cpu_device(eigen_.get());
}

LearnerCpuDevice::~LearnerCpuDevice() = default;

tf::ResourceMgr* LearnerCpuDevice::resource_manager() { return resources_; }

tf::Allocator* LearnerCpuDevice::GetAllocator(tf::AllocatorAttributes) {
  return allocator_;
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
  // tf.data's GetNext would hop to a background thread only to wait there: the
  // learner itself waits instead, and goes on with the element still in its cache.
  if (absl::StartsWith(kernel->type_string_view(), "IteratorGetNext")) {
    kernel->Compute(context);
    done();
    return;
  }
  kernel->ComputeAsync(context,
                       [completions = completions_, done = std::move(done)]() mutable {
                         completions->Post(std::move(done));
                       });
}

}  // namespace tensorbow
