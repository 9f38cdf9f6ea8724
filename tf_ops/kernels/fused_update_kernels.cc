// The CPU kernels of the fused update ops, with the meaning of their inputs.
#include <type_traits>
#include <utility>

#include "cc/arithmetic/update_rules.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_ops/kernels/fused_update_kernel.h"
#include "tf_ops/kernels/update_inputs.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

template <typename Step, typename = void>
constexpr bool kKeeps = false;
template <typename Step>
constexpr bool kKeeps<Step, std::void_t<decltype(Step::kKeepsWithoutGradient)>> =
    Step::kKeepsWithoutGradient;

// A kernel whose `Form` describes the op's inputs, as in update_inputs.h, and has
//
//   T                the element type
//   Rule(context)    the update, from inputs and attributes
template <typename Form>
class KernelOf : public FusedUpdateKernel<typename Form::T> {
 public:
  explicit KernelOf(tf::OpKernelConstruction* construction)
      : Base(construction, {Form::kSlots, Form::kOperand, Form::kScalars},
             kKeeps<Rule>),
        form_(construction) {}

 private:
  using T = typename Form::T;
  using Base = FusedUpdateKernel<T>;
  using Rule = decltype(std::declval<Form>().Rule(nullptr));
  static_assert(Form::kSlots <= UpdateInputs::kMaxSlots);

  absl::Status WithRule(
      tf::OpKernelContext* context,
      absl::FunctionRef<absl::Status(typename Base::Rule)> use) const override {
    const Rule rule = form_.Rule(context);
    return use([&rule](int64_t n, const T* operand, Pull<T> pull, T* w,
                       const typename Base::Slots& slots) {
      Call(rule, n, operand, pull, w, slots, std::make_index_sequence<Form::kSlots>());
    });
  }

  template <size_t... slot>
  static void Call(const Rule& rule, int64_t n, const T* operand, Pull<T> pull, T* w,
                   const typename Base::Slots& slots, std::index_sequence<slot...>) {
    rule(n, operand, pull, w, slots[slot]...);
  }

  const Form form_;
};

template <typename T>
T Scalar(tf::OpKernelContext* context, int index) {
  return *static_cast<const T*>(context->input(index).data());
}

template <typename Element>
struct GradientDescentForm : GradientDescentInputs {
  using T = Element;
  explicit GradientDescentForm(tf::OpKernelConstruction*) {}
  GradientDescent<T> Rule(tf::OpKernelContext* c) const { return {Scalar<T>(c, 1)}; }
};

template <template <typename> class MomentumRule>
struct MomentumOf {
  template <typename Element>
  struct Form : MomentumInputs {
    using T = Element;
    explicit Form(tf::OpKernelConstruction* c)
        : nesterov(BoolAttribute(c, "use_nesterov")) {}
    MomentumRule<T> Rule(tf::OpKernelContext* c) const {
      return {Scalar<T>(c, 2), Scalar<T>(c, 4), nesterov};
    }
    const bool nesterov;
  };
};
template <typename T>
using MomentumForm = MomentumOf<Momentum>::Form<T>;
template <typename T>
using KerasMomentumForm = MomentumOf<KerasMomentum>::Form<T>;

template <typename Element>
struct AdamForm : AdamInputs {
  using T = Element;
  explicit AdamForm(tf::OpKernelConstruction* c)
      : nesterov(BoolAttribute(c, "use_nesterov")) {}
  Adam<T> Rule(tf::OpKernelContext* c) const {
    const T rate =
        AdamStep<T>::RateOf(Scalar<T>(c, 5), Scalar<T>(c, 3), Scalar<T>(c, 4));
    return {rate, Scalar<T>(c, 6), Scalar<T>(c, 7), Scalar<T>(c, 8), nesterov};
  }
  const bool nesterov;
};

template <typename Element>
struct RmsPropForm : RmsPropInputs {
  using T = Element;
  explicit RmsPropForm(tf::OpKernelConstruction*) {}
  RmsProp<T> Rule(tf::OpKernelContext* c) const {
    return {Scalar<T>(c, 3), Scalar<T>(c, 4), Scalar<T>(c, 5), Scalar<T>(c, 6)};
  }
};

template <typename Element>
struct AdagradForm : AdagradInputs {
  using T = Element;
  explicit AdagradForm(tf::OpKernelConstruction* c)
      : update_slots(BoolAttribute(c, "update_slots")) {}
  Adagrad<T> Rule(tf::OpKernelContext* c) const {
    return {Scalar<T>(c, 2), T(0), /*has_epsilon=*/false, update_slots};
  }
  const bool update_slots;
};

template <typename Element>
struct AdagradV2Form : AdagradV2Inputs {
  using T = Element;
  explicit AdagradV2Form(tf::OpKernelConstruction* c)
      : update_slots(BoolAttribute(c, "update_slots")) {}
  Adagrad<T> Rule(tf::OpKernelContext* c) const {
    return {Scalar<T>(c, 2), Scalar<T>(c, 3), /*has_epsilon=*/true, update_slots};
  }
  const bool update_slots;
};

template <Assignment assignment>
struct AssignmentOf {
  template <typename Element>
  struct Form : AssignInputs {
    using T = Element;
    explicit Form(tf::OpKernelConstruction*) {}
    Assign<T> Rule(tf::OpKernelContext*) const { return {assignment}; }
  };
};
template <typename T>
using ReplaceForm = AssignmentOf<Assignment::kReplace>::Form<T>;
template <typename T>
using AddForm = AssignmentOf<Assignment::kAdd>::Form<T>;
template <typename T>
using SubtractForm = AssignmentOf<Assignment::kSubtract>::Form<T>;

#define TENSORBOW_REGISTER_FOR(OP, FORM, TYPE_ATTRIBUTE, TYPE, ELEMENT) \
  REGISTER_KERNEL_BUILDER(Name("TensorBow" OP)                          \
                              .Device(tf::DEVICE_CPU)                   \
                              .TypeConstraint<TYPE>(TYPE_ATTRIBUTE),    \
                          KernelOf<FORM<ELEMENT>>)
#define TENSORBOW_REGISTER(OP, FORM, TYPE_ATTRIBUTE)                   \
  TENSORBOW_REGISTER_FOR(OP, FORM, TYPE_ATTRIBUTE, float, float);      \
  TENSORBOW_REGISTER_FOR(OP, FORM, TYPE_ATTRIBUTE, double, double);    \
  TENSORBOW_REGISTER_FOR(OP, FORM, TYPE_ATTRIBUTE, Eigen::half, Half); \
  TENSORBOW_REGISTER_FOR(OP, FORM, TYPE_ATTRIBUTE, tf::bfloat16, Bfloat16)
#define TENSORBOW_REGISTER_APPLY(OP, FORM) \
  TENSORBOW_REGISTER(OP, FORM, "T");       \
  TENSORBOW_REGISTER("Resource" OP, FORM, "T")

TENSORBOW_REGISTER_APPLY("ApplyGradientDescent", GradientDescentForm);
TENSORBOW_REGISTER_APPLY("ApplyMomentum", MomentumForm);
TENSORBOW_REGISTER("ResourceApplyKerasMomentum", KerasMomentumForm, "T");
TENSORBOW_REGISTER_APPLY("ApplyAdam", AdamForm);
TENSORBOW_REGISTER_APPLY("ApplyRMSProp", RmsPropForm);
TENSORBOW_REGISTER_APPLY("ApplyAdagrad", AdagradForm);
TENSORBOW_REGISTER_APPLY("ApplyAdagradV2", AdagradV2Form);
TENSORBOW_REGISTER("Assign", ReplaceForm, "T");
TENSORBOW_REGISTER("AssignAdd", AddForm, "T");
TENSORBOW_REGISTER("AssignSub", SubtractForm, "T");
TENSORBOW_REGISTER("AssignVariableOp", ReplaceForm, "dtype");
TENSORBOW_REGISTER("AssignAddVariableOp", AddForm, "dtype");
TENSORBOW_REGISTER("AssignSubVariableOp", SubtractForm, "dtype");

}  // namespace
}  // namespace tensorbow
