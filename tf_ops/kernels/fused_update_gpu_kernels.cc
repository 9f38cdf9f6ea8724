// GPU kernels of the fused updates. They check their inputs as TensorFlow's kernels do,
// and make the learner's stream wait for the synchroniser. Then they enqueue one pass
// of cc/arithmetic/gpu over the whole variable. Nothing waits for the GPU.
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/arithmetic/gpu/update_kernels.h"
#include "cc/device/gpu/cuda_memory.h"
#include "cc/device/gpu/cuda_stream.h"
#include "cc/device/learner_device.h"
#include "cc/synchroniser/update_access.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_ops/kernels/learner_errors.h"
#include "tf_ops/kernels/update_inputs.h"
#include "tf_ops/kernels/variable_input.h"
#include "xla/stream_executor/stream.h"
#include "xla/stream_executor/stream_executor.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

absl::Status ToStatus(const CudaError& error) {
  return error.empty() ? absl::OkStatus() : absl::InternalError(error);
}

// The stream of the kernel's device, and its GPU.
struct Stream {
  explicit Stream(tf::OpKernelContext* context)
      : handle(
            context->op_device_context()->stream()->platform_specific_handle().stream),
        ordinal(context->op_device_context()->stream()->parent()->device_ordinal()) {}

  absl::Status Copy(const tf::Tensor& from, tf::Tensor* to) const {
    return ToStatus(CopyAsync(CudaCopy::kDeviceToDevice, from.data(), from.TotalBytes(),
                              to->data(), handle));
  }

  void* const handle;
  const int ordinal;
};

// A kernel whose `Form` describes the op's inputs, as in update_inputs.h, and has
//
//   T                the element type
//   Rule(context)    the update, from inputs and attributes
template <typename Form>
class FusedUpdateGpuKernel : public tf::OpKernel {
 public:
  using T = typename Form::T;
  using Tensors = std::array<tf::Tensor, 1 + Form::kSlots>;

  explicit FusedUpdateGpuKernel(tf::OpKernelConstruction* construction)
      : OpKernel(construction),
        device_(dynamic_cast<LearnerDevice*>(construction->device())),
        form_(construction) {
    OP_REQUIRES(construction, device_ != nullptr, OnLearnersOnly(*this));
    OP_REQUIRES_OK(construction, construction->GetAttr("member", &member_));
    if (construction->HasAttr("use_locking")) {
      OP_REQUIRES_OK(construction, construction->GetAttr("use_locking", &use_locking_));
    }
  }

  void Compute(tf::OpKernelContext* context) override {
    const int learner = device_->learner();
    const UpdateAccess access(device_->synchroniser(), learner);
    TrainedSet* const set = access.set();
    OP_REQUIRES(context, set != nullptr && member_ < set->size(),
                OutsideLearningRun(*this));
    const Stream stream(context);
    const auto copy = [&](const tf::Tensor& from, tf::Tensor* to) {
      return stream.Copy(from, to);
    };

    std::array<VariableInput, 1 + Form::kSlots> variables;
    VariableLocks locks;
    for (int i = 0; i <= Form::kSlots; ++i) {
      OP_REQUIRES_OK(context, VariableInput::Open(context, i, &variables[i]));
      if (variables[i].is_resource() || use_locking_) locks.Add(variables[i].mu());
    }
    locks.Lock();

    // From here on the stream waits for all reads of this learner's weights.
    if (!access.EnterAll(member_)) {
      return context->SetStatus(Discarded(access));
    }
    Tensors tensors;
    for (int i = 0; i <= Form::kSlots; ++i) {
      OP_REQUIRES_OK(context, variables[i].Tensor(use_locking_, copy, &tensors[i]));
    }
    tf::Tensor operand = context->input(Form::kOperand);
    OP_REQUIRES_OK(context, Check(context, tensors, operand));
    const tf::Tensor& w = tensors[0];
    OP_REQUIRES(context, access.variable(member_).size() == w.NumElements(),
                absl::FailedPreconditionError(absl::StrCat(
                    requested_input(0), " changed its shape during a learning run")));
    OP_REQUIRES_OK(context, Separate(context, stream, tensors, &operand));

    set->set_weights(learner, member_, w.data());
    const Pull<T> pull{static_cast<const T*>(access.DeviceTarget(member_)),
                       static_cast<T>(access.Alpha(member_))};
    CudaDeviceGuard guard(stream.ordinal);
    OP_REQUIRES_OK(context, ToStatus(Update(form_.Rule(context), operand, pull, tensors,
                                            stream.handle,
                                            std::make_index_sequence<Form::kSlots>())));
    access.Updated(member_);
    if (!variables[0].is_resource()) context->forward_ref_input_to_ref_output(0, 0);
  }

 private:
  // Makes the checks of TensorFlow's kernels.
  absl::Status Check(tf::OpKernelContext* context, const Tensors& tensors,
                     const tf::Tensor& operand) const {
    for (int i = 0; i <= Form::kSlots; ++i) {
      if (!tensors[i].IsInitialized()) {
        return absl::FailedPreconditionError(absl::StrCat(
            "Attempting to use uninitialized variables: ", requested_input(i)));
      }
    }
    for (const auto& [index, scalar] : Form::kScalars) {
      const tf::TensorShape& shape = context->input(index).shape();
      if (!tf::TensorShapeUtils::IsScalar(shape)) {
        return absl::InvalidArgumentError(
            absl::StrCat(scalar, " is not a scalar: ", shape.DebugString()));
      }
    }
    for (int i = 1; i <= Form::kSlots; ++i) {
      TF_RETURN_IF_ERROR(SameShape(i, tensors[0], tensors[i]));
    }
    return SameShape(Form::kOperand, tensors[0], operand);
  }

  absl::Status SameShape(int input, const tf::Tensor& w,
                         const tf::Tensor& other) const {
    if (w.shape().IsSameSize(other.shape())) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("var and ", requested_input(input), " do not have the same shape",
                     w.shape().DebugString(), " ", other.shape().DebugString()));
  }

  // Gives the operand a buffer of its own if it shares one with a variable.
  static absl::Status Separate(tf::OpKernelContext* context, const Stream& stream,
                               const Tensors& tensors, tf::Tensor* operand) {
    for (const tf::Tensor& tensor : tensors) {
      if (!operand->SharesBufferWith(tensor)) continue;
      tf::Tensor own;
      TF_RETURN_IF_ERROR(
          context->allocate_temp(operand->dtype(), operand->shape(), &own));
      TF_RETURN_IF_ERROR(stream.Copy(*operand, &own));
      *operand = own;
      break;
    }
    return absl::OkStatus();
  }

  template <typename Rule, size_t... slot>
  static CudaError Update(const Rule& rule, const tf::Tensor& operand, Pull<T> pull,
                          Tensors& tensors, void* stream,
                          std::index_sequence<slot...>) {
    return gpu::LaunchUpdate(rule, operand.NumElements(), operand.flat<T>().data(),
                             pull, tensors[0].template flat<T>().data(),
                             tensors[1 + slot].template flat<T>().data()..., stream);
  }

  static absl::Status Discarded(const UpdateAccess& access) {
    const std::string error = access.error();
    if (!error.empty()) return absl::InternalError(error);
    return tensorbow::Discarded();
  }

  LearnerDevice* const device_;
  int member_ = 0;
  bool use_locking_ = false;
  const Form form_;
};

// ------------------------------------------------------------------------- forms

// Returns the input, which lies in device memory.
template <typename T>
const T* Scalar(tf::OpKernelContext* context, int index) {
  return context->input(index).scalar<T>().data();
}

template <typename Element>
struct GradientDescentForm : GradientDescentInputs {
  using T = Element;
  explicit GradientDescentForm(tf::OpKernelConstruction*) {}
  gpu::GradientDescent<T> Rule(tf::OpKernelContext* c) const {
    return {Scalar<T>(c, 1)};
  }
};

template <typename Element>
struct MomentumForm : MomentumInputs {
  using T = Element;
  explicit MomentumForm(tf::OpKernelConstruction* c)
      : nesterov(BoolAttribute(c, "use_nesterov")) {}
  gpu::Momentum<T> Rule(tf::OpKernelContext* c) const {
    return {Scalar<T>(c, 2), Scalar<T>(c, 4), nesterov};
  }
  const bool nesterov;
};

template <typename Element>
struct AdamForm : AdamInputs {
  using T = Element;
  explicit AdamForm(tf::OpKernelConstruction* c)
      : nesterov(BoolAttribute(c, "use_nesterov")) {}
  gpu::Adam<T> Rule(tf::OpKernelContext* c) const {
    return {Scalar<T>(c, 3), Scalar<T>(c, 4), Scalar<T>(c, 5), Scalar<T>(c, 6),
            Scalar<T>(c, 7), Scalar<T>(c, 8), nesterov};
  }
  const bool nesterov;
};

template <typename Element>
struct RmsPropForm : RmsPropInputs {
  using T = Element;
  explicit RmsPropForm(tf::OpKernelConstruction*) {}
  gpu::RmsProp<T> Rule(tf::OpKernelContext* c) const {
    return {Scalar<T>(c, 3), Scalar<T>(c, 4), Scalar<T>(c, 5), Scalar<T>(c, 6)};
  }
};

template <typename Element>
struct AdagradForm : AdagradInputs {
  using T = Element;
  explicit AdagradForm(tf::OpKernelConstruction* c)
      : update_slots(BoolAttribute(c, "update_slots")) {}
  gpu::Adagrad<T> Rule(tf::OpKernelContext* c) const {
    return {Scalar<T>(c, 2), /*epsilon=*/nullptr, update_slots};
  }
  const bool update_slots;
};

template <typename Element>
struct AdagradV2Form : AdagradV2Inputs {
  using T = Element;
  explicit AdagradV2Form(tf::OpKernelConstruction* c)
      : update_slots(BoolAttribute(c, "update_slots")) {}
  gpu::Adagrad<T> Rule(tf::OpKernelContext* c) const {
    return {Scalar<T>(c, 2), Scalar<T>(c, 3), update_slots};
  }
  const bool update_slots;
};

template <Assignment assignment>
struct AssignmentOf {
  template <typename Element>
  struct Form : AssignInputs {
    using T = Element;
    explicit Form(tf::OpKernelConstruction*) {}
    gpu::Assign<T, assignment> Rule(tf::OpKernelContext*) const { return {}; }
  };
};
template <typename T>
using ReplaceForm = AssignmentOf<Assignment::kReplace>::Form<T>;
template <typename T>
using AddForm = AssignmentOf<Assignment::kAdd>::Form<T>;
template <typename T>
using SubtractForm = AssignmentOf<Assignment::kSubtract>::Form<T>;

// HOST: the inputs outside of device memory, resource handles.
#define TENSORBOW_REGISTER_TYPE(OP, FORM, TYPE, TYPE_ATTRIBUTE, HOST)        \
  REGISTER_KERNEL_BUILDER(Name("TensorBow" OP)                               \
                              .Device(tf::DEVICE_GPU)                        \
                                  HOST.TypeConstraint<TYPE>(TYPE_ATTRIBUTE), \
                          FusedUpdateGpuKernel<FORM<TYPE>>)
#define TENSORBOW_REGISTER(OP, FORM, TYPE_ATTRIBUTE, HOST)        \
  TENSORBOW_REGISTER_TYPE(OP, FORM, float, TYPE_ATTRIBUTE, HOST); \
  TENSORBOW_REGISTER_TYPE(OP, FORM, double, TYPE_ATTRIBUTE, HOST)
#define TENSORBOW_REGISTER_APPLY(OP, FORM, HOST) \
  TENSORBOW_REGISTER(OP, FORM, "T", );           \
  TENSORBOW_REGISTER("Resource" OP, FORM, "T", HOST)

#define TENSORBOW_VAR .HostMemory("var")
TENSORBOW_REGISTER_APPLY("ApplyGradientDescent", GradientDescentForm, TENSORBOW_VAR);
#define TENSORBOW_VAR_ACCUM .HostMemory("var").HostMemory("accum")
TENSORBOW_REGISTER_APPLY("ApplyMomentum", MomentumForm, TENSORBOW_VAR_ACCUM);
TENSORBOW_REGISTER_APPLY("ApplyAdagrad", AdagradForm, TENSORBOW_VAR_ACCUM);
TENSORBOW_REGISTER_APPLY("ApplyAdagradV2", AdagradV2Form, TENSORBOW_VAR_ACCUM);
#define TENSORBOW_VAR_M_V .HostMemory("var").HostMemory("m").HostMemory("v")
TENSORBOW_REGISTER_APPLY("ApplyAdam", AdamForm, TENSORBOW_VAR_M_V);
#define TENSORBOW_VAR_MS_MOM .HostMemory("var").HostMemory("ms").HostMemory("mom")
TENSORBOW_REGISTER_APPLY("ApplyRMSProp", RmsPropForm, TENSORBOW_VAR_MS_MOM);
TENSORBOW_REGISTER("Assign", ReplaceForm, "T", );
TENSORBOW_REGISTER("AssignAdd", AddForm, "T", );
TENSORBOW_REGISTER("AssignSub", SubtractForm, "T", );
#define TENSORBOW_RESOURCE .HostMemory("resource")
TENSORBOW_REGISTER("AssignVariableOp", ReplaceForm, "dtype", TENSORBOW_RESOURCE);
TENSORBOW_REGISTER("AssignAddVariableOp", AddForm, "dtype", TENSORBOW_RESOURCE);
TENSORBOW_REGISTER("AssignSubVariableOp", SubtractForm, "dtype", TENSORBOW_RESOURCE);

}  // namespace
}  // namespace tensorbow
