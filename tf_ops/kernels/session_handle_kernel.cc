#include "tensorflow/core/framework/op_kernel.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

class SessionHandleKernel : public tf::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tf::OpKernelContext* context) override {
    tf::Tensor* handle = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &handle));
    handle->scalar<tf::tstring>()() = context->session_handle();
  }
};

REGISTER_KERNEL_BUILDER(Name("TensorBowSessionHandle").Device(tf::DEVICE_CPU),
                        SessionHandleKernel);

}  // namespace
}  // namespace tensorbow
