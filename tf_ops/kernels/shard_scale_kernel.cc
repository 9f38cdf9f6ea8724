#include <type_traits>

#include "cc/device/learner_device.h"
#include "cc/synchroniser/synchroniser.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

template <typename T>
class ShardScaleKernel : public tf::OpKernel {
 public:
  explicit ShardScaleKernel(tf::OpKernelConstruction* construction)
      : OpKernel(construction),
        device_(dynamic_cast<LearnerDevice*>(construction->device())) {}

  void Compute(tf::OpKernelContext* context) override {
    double factor = 1;
    if (device_ != nullptr && device_->synchroniser() != nullptr) {
      const Synchroniser& synchroniser = *device_->synchroniser();
      const int learner = device_->learner();
      factor = synchroniser.participants(learner);
      if (synchroniser.traits().averages_gradients()) {
        factor /= synchroniser.share(learner);
      }
    }
    tf::Tensor* scale = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &scale));
    // By way of a type that all others can be made from.
    if constexpr (std::is_same_v<T, double>) {
      scale->scalar<T>()() = factor;
    } else {
      scale->scalar<T>()() = static_cast<T>(static_cast<float>(factor));
    }
  }

 private:
  LearnerDevice* const device_;
};

#define TENSORBOW_REGISTER(T)                                                    \
  REGISTER_KERNEL_BUILDER(                                                       \
      Name("TensorBowShardScale").Device(tf::DEVICE_CPU).TypeConstraint<T>("T"), \
      ShardScaleKernel<T>)
TENSORBOW_REGISTER(float);
TENSORBOW_REGISTER(double);
TENSORBOW_REGISTER(Eigen::half);
TENSORBOW_REGISTER(tf::bfloat16);
TENSORBOW_REGISTER(tf::complex64);
TENSORBOW_REGISTER(tf::complex128);
#undef TENSORBOW_REGISTER

}  // namespace
}  // namespace tensorbow
