#include <utility>

#include "cc/replicas/offered_variables.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

class OfferVariableKernel : public tf::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tf::OpKernelContext* context) override {
    tf::core::RefCountPtr<tf::Var> variable;
    OP_REQUIRES_OK(context, tf::LookupResource(context, tf::HandleFromInput(context, 0),
                                               &variable));
    OfferVariable(context->input(1).scalar<int64_t>()(), std::move(variable));
  }
};

REGISTER_KERNEL_BUILDER(Name("TensorBowOfferVariable").Device(tf::DEVICE_CPU),
                        OfferVariableKernel);

}  // namespace
}  // namespace tensorbow
