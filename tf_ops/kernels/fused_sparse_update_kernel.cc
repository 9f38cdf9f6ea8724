// The CPU kernel of the fused sparse updates. TensorFlow's own kernel updates the rows;
// this one corrects all of them, slice by slice, as the synchroniser allows.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cc/arithmetic/sparse_correction.h"
#include "cc/device/learner_device.h"
#include "cc/synchroniser/update_access.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tf_ops/kernels/indices.h"
#include "tf_ops/kernels/learner_errors.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

// Makes TensorFlow's kernel for the op that the fused op `definition` replaces.
absl::Status MakeUpdate(tf::OpKernelConstruction* construction,
                        std::unique_ptr<tf::OpKernel>* update) {
  tf::NodeDef definition = construction->def();
  definition.set_op(std::string(absl::StripPrefix(definition.op(), "TensorBow")));
  definition.mutable_attr()->erase("member");
  std::shared_ptr<const tf::NodeProperties> properties;
  TF_RETURN_IF_ERROR(tf::NodeProperties::CreateFromNodeDef(
      std::move(definition), tf::OpRegistry::Global(), &properties));
  tf::OpKernel* made = nullptr;
  TF_RETURN_IF_ERROR(tf::CreateOpKernel(
      construction->device_type(), construction->device(),
      construction->device()->GetAllocator({}), construction->function_library(),
      construction->resource_manager(), properties, construction->graph_def_version(),
      &made));
  update->reset(made);
  return absl::OkStatus();
}

// S is the type of the variable's elements in cc/arithmetic.
template <typename S>
class FusedSparseUpdateKernel : public tf::OpKernel {
 public:
  explicit FusedSparseUpdateKernel(tf::OpKernelConstruction* construction)
      : OpKernel(construction),
        device_(dynamic_cast<LearnerDevice*>(construction->device())) {
    OP_REQUIRES(construction, device_ != nullptr, OnLearnersOnly(*this));
    OP_REQUIRES_OK(construction, construction->GetAttr("member", &member_));
    if (construction->HasAttr("use_locking")) {
      OP_REQUIRES_OK(construction, construction->GetAttr("use_locking", &use_locking_));
    }
    int end = 0;
    OP_REQUIRES_OK(construction, InputRange("indices", &indices_, &end));
    OP_REQUIRES_OK(construction, MakeUpdate(construction, &update_));
  }

  void Compute(tf::OpKernelContext* context) override {
    const UpdateAccess access(device_->synchroniser(), device_->learner());
    const TrainedSet* const set = access.set();
    OP_REQUIRES(context, set != nullptr && member_ < set->size(),
                OutsideLearningRun(*this));
    const ScopedActivity updating(access.activity(), Activity::kUpdate,
                                  set->variable(member_));
    std::unique_ptr<SparseCorrection<S>> correction;
    OP_REQUIRES_OK(context, BeforeUpdate(context, access, &correction));
    update_->Compute(context);
    if (!context->status().ok()) return;
    if (correction != nullptr) correction->AfterUpdate();
    access.Updated(member_);
  }

 private:
  using A = Accumulator<S>;

  // Corrects the rows that are not updated. `correction` is for AfterUpdate(); null if
  // this iteration is not synchronised.
  absl::Status BeforeUpdate(tf::OpKernelContext* context, const UpdateAccess& access,
                            std::unique_ptr<SparseCorrection<S>>* correction) {
    if (context->input_dtype(0) != tf::DT_RESOURCE) {
      if (!use_locking_) {
        return Correct(context, access, context->mutable_input(0, false), correction);
      }
      tf::mutex_lock lock(*context->input_ref_mutex(0));
      return Correct(context, access, context->mutable_input(0, true), correction);
    }
    tf::core::RefCountPtr<tf::Var> variable;
    TF_RETURN_IF_ERROR(
        tf::LookupResource(context, tf::HandleFromInput(context, 0), &variable));
    tf::mutex_lock lock(*variable->mu());
    TF_RETURN_IF_ERROR(Detach(context, access, variable.get()));
    return Correct(context, access, *variable->tensor(), correction);
  }

  // Does the first step of TensorFlow's kernel: from now on reads make copies, so that
  // the buffer, which has no other reference, can be changed in place.
  absl::Status Detach(tf::OpKernelContext* context, const UpdateAccess& access,
                      tf::Var* variable) {
    if (variable->copy_on_read_mode.load()) return absl::OkStatus();
    const tf::Tensor& old = *variable->tensor();
    if (old.IsInitialized() && !old.RefCountIsOne()) {
      // A learner that synchronises the iteration before may still read it.
      if (!access.EnterAll(member_)) return Discarded();
      tf::Tensor copy;
      TF_RETURN_IF_ERROR(context->allocate_temp(old.dtype(), old.shape(), &copy));
      std::copy_n(static_cast<const char*>(old.data()), old.TotalBytes(),
                  static_cast<char*>(copy.data()));
      *variable->tensor() = copy;
    }
    variable->copy_on_read_mode.store(true);
    return absl::OkStatus();
  }

  absl::Status Correct(tf::OpKernelContext* context, const UpdateAccess& access,
                       const tf::Tensor& w,
                       std::unique_ptr<SparseCorrection<S>>* correction) {
    if (!w.IsInitialized()) return absl::OkStatus();  // TensorFlow's kernel reports it
    const int learner = device_->learner();
    if (access.set()->weights(learner, member_) != w.data()) {
      if (!access.EnterAll(member_)) return Discarded();
      access.set()->set_weights(learner, member_, w.data());
    }
    const CentralModel::Variable& variable = access.variable(member_);
    if (variable.size() != w.NumElements()) {
      return absl::FailedPreconditionError(
          absl::StrCat(requested_input(0), " changed its shape during a learning run"));
    }
    const int num_slices = variable.num_slices();
    for (int i = 0; i < num_slices; ++i) {
      const int s = access.SliceAt(i, num_slices);
      if (!access.Enter(member_, s)) return Discarded();
      const A* const z = access.Target<A>(member_);
      if (z == nullptr) continue;
      if (*correction == nullptr) {
        const int64_t num_rows = w.dims() > 0 ? w.dim_size(0) : 1;
        *correction = std::make_unique<SparseCorrection<S>>(
            RowsOf(context->input(indices_)), num_rows, w.NumElements() / num_rows,
            Pull<S>{z, static_cast<A>(access.Alpha(member_))},
            static_cast<S*>(w.data()));
      }
      const CentralModel::Slice slice = variable.slice(s);
      (*correction)->BeforeUpdate(slice.begin, slice.end);
    }
    return absl::OkStatus();
  }

  LearnerDevice* const device_;
  int member_ = 0;
  bool use_locking_ = false;
  int indices_ = 0;  // the number of the input
  std::unique_ptr<tf::OpKernel> update_;
};

#define TENSORBOW_REGISTER_FOR(OP, TYPE_ATTRIBUTE, TYPE, ELEMENT)    \
  REGISTER_KERNEL_BUILDER(Name("TensorBow" OP)                       \
                              .Device(tf::DEVICE_CPU)                \
                              .TypeConstraint<TYPE>(TYPE_ATTRIBUTE), \
                          FusedSparseUpdateKernel<ELEMENT>)
#define TENSORBOW_REGISTER(OP, TYPE_ATTRIBUTE)                   \
  TENSORBOW_REGISTER_FOR(OP, TYPE_ATTRIBUTE, float, float);      \
  TENSORBOW_REGISTER_FOR(OP, TYPE_ATTRIBUTE, double, double);    \
  TENSORBOW_REGISTER_FOR(OP, TYPE_ATTRIBUTE, Eigen::half, Half); \
  TENSORBOW_REGISTER_FOR(OP, TYPE_ATTRIBUTE, tf::bfloat16, Bfloat16)

TENSORBOW_REGISTER("SparseApplyMomentum", "T");
TENSORBOW_REGISTER("SparseApplyAdagrad", "T");
TENSORBOW_REGISTER("SparseApplyAdagradV2", "T");
TENSORBOW_REGISTER("SparseApplyRMSProp", "T");
TENSORBOW_REGISTER("ResourceSparseApplyMomentum", "T");
TENSORBOW_REGISTER("ResourceSparseApplyAdagrad", "T");
TENSORBOW_REGISTER("ResourceSparseApplyAdagradV2", "T");
TENSORBOW_REGISTER("ResourceSparseApplyRMSProp", "T");
TENSORBOW_REGISTER("ScatterAdd", "T");
TENSORBOW_REGISTER("ScatterSub", "T");
TENSORBOW_REGISTER("ResourceScatterAdd", "dtype");
TENSORBOW_REGISTER("ResourceScatterSub", "dtype");
#undef TENSORBOW_REGISTER
#undef TENSORBOW_REGISTER_FOR

}  // namespace
}  // namespace tensorbow
