// The CPU kernel of updates that programs write with ops of their own.
#include <string>
#include <utility>
#include <vector>

#include "cc/arithmetic/element_program.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_ops/kernels/fused_update_kernel.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

int IntAttribute(tf::OpKernelConstruction* construction, const char* name) {
  int value = 0;
  const absl::Status status = construction->GetAttr(name, &value);
  if (!status.ok()) construction->SetStatus(status);
  return value;
}

template <typename T>
class ElementUpdateKernel : public FusedUpdateKernel<T> {
 public:
  explicit ElementUpdateKernel(tf::OpKernelConstruction* construction)
      : Base(construction,
             {IntAttribute(construction, "num_slots"), /*operand=*/1, /*scalars=*/{},
              /*first_slot=*/2},
             /*keeps_without_gradient=*/false) {
    const absl::Status status = Parse(construction);
    if (!status.ok()) construction->SetStatus(status);
  }

 private:
  using Base = FusedUpdateKernel<T>;
  static_assert(ElementProgram::kMaxArrays == 1 + UpdateInputs::kMaxSlots);

  absl::Status Parse(tf::OpKernelConstruction* construction) {
    std::vector<std::string> operations;
    std::vector<int> arguments, results;
    TF_RETURN_IF_ERROR(construction->GetAttr("operations", &operations));
    TF_RETURN_IF_ERROR(construction->GetAttr("arguments", &arguments));
    TF_RETURN_IF_ERROR(construction->GetAttr("results", &results));
    if (arguments.size() != 2 * operations.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Got ", arguments.size(), " arguments of ", operations.size(),
                       " operations; wanted two for each"));
    }
    std::vector<ElementInstruction> instructions;
    for (size_t i = 0; i < operations.size(); ++i) {
      const std::optional<ElementOp> op = ElementOpOf(operations[i]);
      if (!op.has_value()) {
        return absl::InvalidArgumentError(
            absl::StrCat("'", operations[i], "' is no operation on elements"));
      }
      instructions.push_back({*op, arguments[2 * i], arguments[2 * i + 1]});
    }
    const int arrays = 1 + IntAttribute(construction, "num_slots");
    const int scalars = IntAttribute(construction, "num_scalars");
    const std::string error =
        ElementProgram::Check(arrays, scalars, instructions, results);
    if (!error.empty()) return absl::InvalidArgumentError(error);
    program_ =
        ElementProgram(arrays, scalars, std::move(instructions), std::move(results));
    return absl::OkStatus();
  }

  absl::Status WithRule(
      tf::OpKernelContext* context,
      absl::FunctionRef<absl::Status(typename Base::Rule)> use) const override {
    tf::OpInputList inputs;
    TF_RETURN_IF_ERROR(context->input_list("scalars", &inputs));
    std::vector<T> scalars;
    for (const tf::Tensor& input : inputs) {
      if (input.NumElements() != 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("A scalar of an update has one element, got shape ",
                         input.shape().DebugString()));
      }
      scalars.push_back(*static_cast<const T*>(input.data()));
    }
    return use([&](int64_t n, const T* operand, Pull<T> pull, T* w,
                   const typename Base::Slots& slots) {
      std::array<T*, ElementProgram::kMaxArrays> arrays{w};
      std::copy(slots.begin(), slots.end(), arrays.begin() + 1);
      program_.Run(n, arrays.data(), operand, scalars.data(), pull);
    });
  }

  ElementProgram program_;
};

#define TENSORBOW_REGISTER_ELEMENTS(TYPE, ELEMENT)               \
  REGISTER_KERNEL_BUILDER(Name("TensorBowResourceApplyElements") \
                              .Device(tf::DEVICE_CPU)            \
                              .TypeConstraint<TYPE>("T"),        \
                          ElementUpdateKernel<ELEMENT>)
TENSORBOW_REGISTER_ELEMENTS(float, float);
TENSORBOW_REGISTER_ELEMENTS(double, double);
TENSORBOW_REGISTER_ELEMENTS(Eigen::half, Half);
TENSORBOW_REGISTER_ELEMENTS(tf::bfloat16, Bfloat16);

}  // namespace
}  // namespace tensorbow
