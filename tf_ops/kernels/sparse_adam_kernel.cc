// The CPU kernel of Adam's update with a gradient of some rows. It checks its inputs
// and lets cc/arithmetic do the work: on all threads of the device or, if it also
// corrects, slice by slice as the synchroniser allows.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/arithmetic/sparse_adam.h"
#include "cc/device/learner_device.h"
#include "cc/synchroniser/update_access.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/util/work_sharder.h"
#include "tf_ops/kernels/indices.h"
#include "tf_ops/kernels/learner_errors.h"
#include "tf_ops/kernels/variable_input.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

enum Input {
  kVar,
  kM,
  kV,
  kRate,
  kBeta1,
  kBeta2,
  kEpsilon,
  kMUpdates,
  kVUpdates,
  kRows
};

// T is the type of the variable's elements in cc/arithmetic.
template <typename T>
class SparseAdamKernel : public tf::OpKernel {
 public:
  explicit SparseAdamKernel(tf::OpKernelConstruction* construction)
      : OpKernel(construction),
        device_(dynamic_cast<LearnerDevice*>(construction->device())) {
    OP_REQUIRES_OK(construction, construction->GetAttr("member", &member_));
    OP_REQUIRES(construction, member_ < 0 || device_ != nullptr, OnLearnersOnly(*this));
  }

  void Compute(tf::OpKernelContext* context) override {
    const UpdateAccess access(device_ == nullptr ? nullptr : device_->synchroniser(),
                              device_ == nullptr ? 0 : device_->learner());
    const TrainedSet* const set = access.set();
    OP_REQUIRES(context, member_ < 0 || (set != nullptr && member_ < set->size()),
                OutsideLearningRun(*this));
    std::optional<ScopedActivity> updating;
    if (set != nullptr) {
      updating.emplace(access.activity(), Activity::kUpdate,
                       member_ < 0 ? -1 : set->variable(member_));
    }

    std::array<VariableInput, 3> variables;
    VariableLocks locks;
    for (int i = kVar; i <= kV; ++i) {
      OP_REQUIRES_OK(context, VariableInput::Open(context, i, &variables[i]));
      locks.Add(variables[i].mu());
    }
    locks.Lock();
    // A learner that synchronises the iteration before may still read the old buffer.
    OP_REQUIRES(context,
                member_ < 0 || !variables[kVar].shared() || access.EnterAll(member_),
                Discarded());
    Tensors tensors;
    for (int i = kVar; i <= kV; ++i) {
      OP_REQUIRES_OK(context,
                     variables[i].Tensor(/*locked=*/true, CopyElements, &tensors[i]));
      OP_REQUIRES(
          context, tensors[i].IsInitialized(),
          absl::FailedPreconditionError(absl::StrCat(
              "Attempting to use uninitialized variables: ", requested_input(i))));
    }
    std::vector<int64_t> rows;
    OP_REQUIRES_OK(context, Check(context, tensors, &rows));

    const tf::Tensor& w = tensors[kVar];
    const int64_t row_size = w.NumElements() / std::max<int64_t>(1, w.dim_size(0));
    const SparseAdam<T> adam(
        {Scalar(context, kRate), Scalar(context, kBeta1), Scalar(context, kBeta2),
         Scalar(context, kEpsilon)},
        rows, std::max<int64_t>(1, row_size),
        {Elements(context->input(kMUpdates)), Elements(context->input(kVUpdates))});
    if (member_ < 0) {
      UpdateOnAllThreads(context, adam, tensors);
    } else {
      OP_REQUIRES_OK(context, UpdateAndCorrect(access, adam, tensors));
      access.Updated(member_);
    }
    if (!variables[kVar].is_resource()) context->forward_ref_input_to_ref_output(0, 0);
  }

 private:
  using Tensors = std::array<tf::Tensor, 3>;

  absl::Status Check(tf::OpKernelContext* context, const Tensors& tensors,
                     std::vector<int64_t>* rows) const {
    const tf::TensorShape& shape = tensors[kVar].shape();
    if (shape.dims() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(requested_input(kVar), " must have rows, is a scalar"));
    }
    for (int slot : {kM, kV}) {
      if (tensors[slot].shape() != shape) {
        return absl::InvalidArgumentError(absl::StrCat(
            "var and ", requested_input(slot), " do not have the same shape",
            shape.DebugString(), " ", tensors[slot].shape().DebugString()));
      }
    }
    for (int scalar : {kRate, kBeta1, kBeta2, kEpsilon}) {
      const tf::Tensor& value = context->input(scalar);
      if (value.NumElements() != 1) {
        return absl::InvalidArgumentError(
            absl::StrCat(requested_input(scalar),
                         " is not a scalar: ", value.shape().DebugString()));
      }
    }
    const tf::Tensor& indices = context->input(kRows);
    tf::TensorShape updates = indices.shape();
    for (int d = 1; d < shape.dims(); ++d) updates.AddDim(shape.dim_size(d));
    for (int input : {kMUpdates, kVUpdates}) {
      if (context->input(input).shape() != updates) {
        return absl::InvalidArgumentError(absl::StrCat(
            "Must have updates.shape = indices.shape + params.shape[1:], "
            "got updates.shape ",
            context->input(input).shape().DebugString(), ", indices.shape ",
            indices.shape().DebugString(), ", params.shape ", shape.DebugString()));
      }
    }
    *rows = RowsOf(indices);
    for (size_t i = 0; i < rows->size(); ++i) {
      const int64_t row = (*rows)[i];
      if (row >= 0 && row < shape.dim_size(0)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "indices[", i, "] = ", row, " is not in [0, ", shape.dim_size(0), ")"));
    }
    return absl::OkStatus();
  }

  static void UpdateOnAllThreads(tf::OpKernelContext* context,
                                 const SparseAdam<T>& adam, const Tensors& tensors) {
    constexpr int64_t kCyclesPerElement = 12;
    const auto& threads = *context->device()->tensorflow_cpu_worker_threads();
    tf::Shard(threads.num_threads, threads.workers, tensors[kVar].NumElements(),
              kCyclesPerElement, [&](int64_t begin, int64_t end) {
                adam.Update(begin, end, Pull<T>(), Elements(tensors[kVar]),
                            Elements(tensors[kM]), Elements(tensors[kV]));
              });
  }

  absl::Status UpdateAndCorrect(const UpdateAccess& access, const SparseAdam<T>& adam,
                                const Tensors& tensors) const {
    const int learner = device_->learner();
    T* const w = Elements(tensors[kVar]);
    if (access.set()->weights(learner, member_) != w) {
      if (!access.EnterAll(member_)) return Discarded();
      access.set()->set_weights(learner, member_, w);
    }
    const CentralModel::Variable& variable = access.variable(member_);
    if (variable.size() != tensors[kVar].NumElements()) {
      return absl::FailedPreconditionError(absl::StrCat(
          requested_input(kVar), " changed its shape during a learning run"));
    }
    const int num_slices = variable.num_slices();
    for (int i = 0; i < num_slices; ++i) {
      const int s = access.SliceAt(i, num_slices);
      if (!access.Enter(member_, s)) return Discarded();
      const CentralModel::Slice slice = variable.slice(s);
      const Pull<T> pull{access.template Target<Accumulator<T>>(member_),
                         static_cast<Accumulator<T>>(access.Alpha(member_))};
      adam.Update(slice.begin, slice.end, pull, w, Elements(tensors[kM]),
                  Elements(tensors[kV]));
    }
    return absl::OkStatus();
  }

  static T Scalar(tf::OpKernelContext* context, int input) {
    return *static_cast<const T*>(context->input(input).data());
  }
  static T* Elements(const tf::Tensor& tensor) {
    return static_cast<T*>(tensor.data());
  }
  LearnerDevice* const device_;
  int member_ = -1;
};

#define TENSORBOW_REGISTER_FOR(OP, TYPE, ELEMENT)                            \
  REGISTER_KERNEL_BUILDER(                                                   \
      Name("TensorBow" OP).Device(tf::DEVICE_CPU).TypeConstraint<TYPE>("T"), \
      SparseAdamKernel<ELEMENT>)
#define TENSORBOW_REGISTER(OP)                   \
  TENSORBOW_REGISTER_FOR(OP, float, float);      \
  TENSORBOW_REGISTER_FOR(OP, double, double);    \
  TENSORBOW_REGISTER_FOR(OP, Eigen::half, Half); \
  TENSORBOW_REGISTER_FOR(OP, tf::bfloat16, Bfloat16)

TENSORBOW_REGISTER("SparseApplyAdam");
TENSORBOW_REGISTER("ResourceSparseApplyAdam");
#undef TENSORBOW_REGISTER
#undef TENSORBOW_REGISTER_FOR

}  // namespace
}  // namespace tensorbow
