// CPU kernels of the fused updates: they check what they are given as TensorFlow's
// kernels do, and have cc/arithmetic do the work slice by slice, as the synchroniser
// lets them. Under S-SGD, where all learners make the same update, each makes it for
// all in some of the slices: of one copy, or of a copy for each learner.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/arithmetic/update_rules.h"
#include "cc/device/learner_device.h"
#include "cc/synchroniser/synchroniser.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_ops/kernels/learner_errors.h"
#include "tf_ops/kernels/update_inputs.h"
#include "tf_ops/kernels/update_operand.h"
#include "tf_ops/kernels/variable_input.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

// `Form` says what an op's inputs mean:
//   T                the element type, as cc/arithmetic computes with it
//   kSlots           the variable inputs 1 … kSlots are slots
//   kOperand         the input that has one value per element (the gradient)
//   kScalars         the other inputs, {index, name}
//   Rule(context)    the update, from inputs and attributes
template <typename Form>
class FusedUpdateKernel : public tf::OpKernel {
 public:
  using T = typename Form::T;

  explicit FusedUpdateKernel(tf::OpKernelConstruction* construction)
      : OpKernel(construction),
        device_(dynamic_cast<LearnerDevice*>(construction->device())),
        form_(construction) {
    OP_REQUIRES(construction, device_ != nullptr, OnLearnersOnly(*this));
    OP_REQUIRES_OK(construction, construction->GetAttr("member", &member_));
    if (construction->HasAttr("use_locking")) {
      OP_REQUIRES_OK(construction, construction->GetAttr("use_locking", &use_locking_));
    }
    OP_REQUIRES_OK(construction, construction->GetAttr("transpose", &transpose_));
    OP_REQUIRES_OK(construction, construction->GetAttr("shared", &shared_));
    OP_REQUIRES_OK(construction, construction->GetAttr("averaged", &averaged_));
  }

  void Compute(tf::OpKernelContext* context) override {
    Synchroniser* const synchroniser = device_->synchroniser();
    const int learner = device_->learner();
    TrainedSet* const set = synchroniser == nullptr ? nullptr : synchroniser->set();
    const bool for_all =
        synchroniser != nullptr && synchroniser->traits().averages_gradients();
    OP_REQUIRES(
        context,
        set != nullptr && member_ < (for_all ? set->num_updates() : set->size()),
        OutsideLearningRun(*this));

    const bool in_set = member_ < set->size();
    const ScopedActivity updating(synchroniser->activity(learner), Activity::kUpdate,
                                  in_set ? set->variable(member_) : -1);
    std::array<VariableInput, 1 + Form::kSlots> variables;
    VariableLocks locks;
    for (int i = 0; i <= Form::kSlots; ++i) {
      OP_REQUIRES_OK(context, VariableInput::Open(context, i, &variables[i]));
      // What learners share, they touch in this update only.
      if (shared_) continue;
      if (variables[i].is_resource() || use_locking_) locks.Add(variables[i].mu());
    }
    locks.Lock();

    // The old buffer may still be read by a learner that synchronises the iteration
    // before.
    if (!for_all && variables[0].shared() &&
        !synchroniser->EnterAll(learner, member_)) {
      context->SetStatus(Discarded());
      return;
    }
    Tensors tensors;
    for (int i = 0; i <= Form::kSlots; ++i) {
      if (shared_) {
        tensors[i] = variables[i].Present();
      } else {
        OP_REQUIRES_OK(context,
                       variables[i].Tensor(use_locking_, CopyElements, &tensors[i]));
      }
      OP_REQUIRES(
          context, tensors[i].IsInitialized(),
          absl::FailedPreconditionError(absl::StrCat(
              "Attempting to use uninitialized variables: ", requested_input(i))));
    }
    const tf::Tensor& w = tensors[0];
    UpdateOperand<T> operand;
    OP_REQUIRES_OK(
        context, UpdateOperand<T>::Open(context, Form::kOperand, transpose_, &operand));
    for (const auto& [index, scalar] : Form::kScalars) {
      const tf::TensorShape& shape = context->input(index).shape();
      OP_REQUIRES(context, tf::TensorShapeUtils::IsScalar(shape),
                  absl::InvalidArgumentError(
                      absl::StrCat(scalar, " is not a scalar: ", shape.DebugString())));
    }
    for (int i = 1; i <= Form::kSlots; ++i) {
      OP_REQUIRES(context, w.shape().IsSameSize(tensors[i].shape()),
                  absl::InvalidArgumentError(absl::StrCat(
                      "var and ", requested_input(i), " do not have the same shape",
                      w.shape().DebugString(), " ", tensors[i].shape().DebugString())));
    }
    OP_REQUIRES(
        context, w.shape().IsSameSize(operand.shape()),
        absl::InvalidArgumentError(absl::StrCat(
            "var and ", requested_input(Form::kOperand), " do not have the same shape",
            w.shape().DebugString(), " ", operand.shape().DebugString())));
    for (const tf::Tensor& tensor : tensors) {
      OP_REQUIRES_OK(context, operand.DetachFrom(context, tensor));
    }
    if (for_all) operand.SetShare(synchroniser->share(learner));
    OP_REQUIRES_OK(context, operand.Prepare(context));

    OP_REQUIRES(context,
                !in_set || synchroniser->variable(member_).size() == w.NumElements(),
                absl::FailedPreconditionError(absl::StrCat(
                    requested_input(0), " changed its shape during a learning run")));
    const auto rule = form_.Rule(context);
    if (for_all) {
      OP_REQUIRES_OK(context, operand.PrepareMean(context));
      OP_REQUIRES_OK(context, UpdateForAll(synchroniser, rule, operand, tensors));
    } else {
      OP_REQUIRES_OK(context, UpdateOwn(synchroniser, rule, operand, tensors));
    }
    if (in_set) synchroniser->Updated(learner, member_);
    if (!variables[0].is_resource()) context->forward_ref_input_to_ref_output(0, 0);
  }

 private:
  using Tensors = std::array<tf::Tensor, 1 + Form::kSlots>;

  // Updates the learner's own variables.
  template <typename Rule>
  absl::Status UpdateOwn(Synchroniser* synchroniser, const Rule& rule,
                         UpdateOperand<T>& operand, const Tensors& tensors) const {
    const int learner = device_->learner();
    TrainedSet* const set = synchroniser->set();
    if (set->weights(learner, member_) != tensors[0].data()) {
      if (!synchroniser->EnterAll(learner, member_)) return Discarded();
      set->set_weights(learner, member_, tensors[0].data());
    }
    const CentralModel::Variable& variable = synchroniser->variable(member_);
    const int at_once = operand.slices_at_once();
    const int num_blocks = (variable.num_slices() + at_once - 1) / at_once;
    for (int i = 0; i < num_blocks; ++i) {
      const int first = synchroniser->SliceAt(learner, i, num_blocks) * at_once;
      const int end = std::min(first + at_once, variable.num_slices());
      for (int s = first; s < end; ++s) {
        if (!synchroniser->Enter(learner, member_, s)) return Discarded();
        const CentralModel::Slice slice = variable.slice(s);
        Pull<T> pull{synchroniser->Target<Accumulator<T>>(learner, member_),
                     static_cast<Accumulator<T>>(synchroniser->Alpha(member_))};
        if (pull.z != nullptr) pull.z += slice.begin;
        operand.AddInputGradient(slice, Elements(tensors[0]) + slice.begin);
        Update(rule, slice, operand.At(slice), pull, tensors,
               std::make_index_sequence<Form::kSlots>());
      }
    }
    return absl::OkStatus();
  }

  // What a learner brings to an update for all.
  struct Share {
    const UpdateOperand<T>* operand;
    const Tensors* tensors;
  };

  // Updates a part of all learners' variables, which are equal, with the mean of their
  // operands, while the others update the rest.
  template <typename Rule>
  absl::Status UpdateForAll(Synchroniser* synchroniser, const Rule& rule,
                            UpdateOperand<T>& operand, const Tensors& tensors) const {
    const Share mine{&operand, &tensors};
    const int point = synchroniser->set()->update_point(member_);
    const auto shares = synchroniser->AllGather(device_->learner(), point, &mine);
    if (shares.empty()) return Discarded();
    const auto count = static_cast<int>(shares.size());
    const auto place = static_cast<int>(std::find(shares.begin(), shares.end(), &mine) -
                                        shares.begin());
    std::vector<const UpdateOperand<T>*> operands;
    std::vector<const Tensors*> others;
    const int64_t size = tensors[0].NumElements();
    const bool in_set = member_ < synchroniser->set()->size();  // it has an average
    bool alike = true;
    for (const void* brought : shares) {
      const auto* const share = static_cast<const Share*>(brought);
      operands.push_back(share->operand);
      if (share != &mine && !shared_) others.push_back(share->tensors);
      alike &= (*share->tensors)[0].NumElements() == size;
    }

    for (int s = 0; alike && s < CentralModel::NumSlices(size); ++s) {
      if ((member_ + s / operand.slices_at_once()) % count != place) continue;
      const CentralModel::Slice slice = CentralModel::SliceOf(size, s);
      const T* const mean =
          averaged_ ? operand.At(slice) : operand.MeanAt(operands, slice);
      Update(rule, slice, mean, Pull<T>(), tensors,
             std::make_index_sequence<Form::kSlots>());
      if (in_set) {
        synchroniser->variable(member_).AverageNext(s,
                                                    Elements(tensors[0]) + slice.begin);
      }
      for (const Tensors* other : others) {
        for (int i = 0; i <= Form::kSlots; ++i) {
          std::copy_n(Elements(tensors[i]) + slice.begin, slice.size(),
                      Elements((*other)[i]) + slice.begin);
        }
      }
    }
    synchroniser->Release(device_->learner(), point);
    return alike ? absl::OkStatus()
                 : absl::FailedPreconditionError(
                       absl::StrCat(requested_input(0),
                                    " does not have the same size in all learners"));
  }

  template <typename Rule, size_t... slot>
  static void Update(const Rule& rule, const CentralModel::Slice& slice,
                     const T* operand, Pull<T> pull, const Tensors& tensors,
                     std::index_sequence<slot...>) {
    const int64_t begin = slice.begin;
    rule(slice.size(), operand, pull, Elements(tensors[0]) + begin,
         Elements(tensors[1 + slot]) + begin...);
  }

  static T* Elements(const tf::Tensor& tensor) {
    return static_cast<T*>(tensor.data());
  }

  LearnerDevice* const device_;
  int member_ = 0;
  bool use_locking_ = false;
  bool transpose_ = false;  // of the operand, if it is a product
  bool shared_ = false;     // all learners have one copy
  bool averaged_ = false;   // all learners have one gradient
  const Form form_;
};

// ------------------------------------------------------------------------- forms

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
                          FusedUpdateKernel<FORM<ELEMENT>>)
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
