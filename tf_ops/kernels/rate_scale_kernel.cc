#include "cc/device/learner_device.h"
#include "cc/synchroniser/update_access.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

template <typename T>
class RateScaleKernel : public tf::OpKernel {
 public:
  explicit RateScaleKernel(tf::OpKernelConstruction* construction)
      : OpKernel(construction),
        device_(dynamic_cast<LearnerDevice*>(construction->device())) {}

  void Compute(tf::OpKernelContext* context) override {
    double rate = 1;
    if (device_ != nullptr) {
      rate = UpdateAccess(device_->synchroniser(), device_->learner()).rate();
    }
    tf::Tensor* scale = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &scale));
    scale->scalar<T>()() = static_cast<T>(rate);
  }

 private:
  LearnerDevice* const device_;
};

#define TENSORBOW_REGISTER(T)                                                   \
  REGISTER_KERNEL_BUILDER(                                                      \
      Name("TensorBowRateScale").Device(tf::DEVICE_CPU).TypeConstraint<T>("T"), \
      RateScaleKernel<T>)
TENSORBOW_REGISTER(float);
TENSORBOW_REGISTER(double);
TENSORBOW_REGISTER(Eigen::half);
TENSORBOW_REGISTER(tf::bfloat16);
#undef TENSORBOW_REGISTER

}  // namespace
}  // namespace tensorbow
