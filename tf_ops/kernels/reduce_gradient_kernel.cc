#include "absl/strings/str_cat.h"
#include "cc/device/learner_device.h"
#include "cc/synchroniser/ssgd.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_ops/kernels/learner_errors.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

class ReduceGradientKernel : public tf::OpKernel {
 public:
  explicit ReduceGradientKernel(tf::OpKernelConstruction* construction)
      : OpKernel(construction),
        device_(dynamic_cast<LearnerDevice*>(construction->device())) {
    OP_REQUIRES_OK(construction, construction->GetAttr("index", &index_));
    tf::DataType dtype;
    OP_REQUIRES_OK(construction, construction->GetAttr("T", &dtype));
    type_ = dtype == tf::DT_DOUBLE     ? ElementType::kFloat64
            : dtype == tf::DT_HALF     ? ElementType::kFloat16
            : dtype == tf::DT_BFLOAT16 ? ElementType::kBfloat16
                                       : ElementType::kFloat32;
  }

  void Compute(tf::OpKernelContext* context) override {
    if (device_ == nullptr) {
      context->set_output(0, context->input(0));
      return;
    }
    Synchroniser* const synchroniser = device_->synchroniser();
    OP_REQUIRES(context,
                synchroniser != nullptr && synchroniser->set() != nullptr &&
                    index_ < synchroniser->set()->num_gradients(),
                OutsideLearningRun(*this));
    const tf::Tensor& gradient = context->input(0);
    tf::Tensor* mean = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, gradient.shape(), &mean));
    OP_REQUIRES(context,
                ReduceGradient(synchroniser, device_->learner(), index_, type_,
                               gradient.NumElements(), gradient.data(), mean->data()),
                Discarded());
  }

 private:
  LearnerDevice* const device_;
  int index_ = 0;
  ElementType type_ = ElementType::kFloat32;
};

REGISTER_KERNEL_BUILDER(Name("TensorBowReduceGradient").Device(tf::DEVICE_CPU),
                        ReduceGradientKernel);

}  // namespace
}  // namespace tensorbow
