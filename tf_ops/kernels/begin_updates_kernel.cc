// The CPU kernel at which learners wait before they update shared variables, or
// variables that other hosts also train.
#include <utility>
#include <vector>

#include "cc/device/learner_device.h"
#include "cc/synchroniser/learner_exchange.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_ops/kernels/learner_errors.h"
#include "tf_ops/kernels/variable_input.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

class BeginUpdatesKernel : public tf::OpKernel {
 public:
  explicit BeginUpdatesKernel(tf::OpKernelConstruction* construction)
      : OpKernel(construction),
        device_(dynamic_cast<LearnerDevice*>(construction->device())) {
    OP_REQUIRES_OK(construction, construction->GetAttr("index", &index_));
    OP_REQUIRES_OK(construction, construction->GetAttr("votes", &votes_));
  }

  void Compute(tf::OpKernelContext* context) override {
    if (num_inputs() == 0 && !votes_) return;
    OP_REQUIRES(context, device_ != nullptr, OnLearnersOnly(*this));
    const LearnerExchange exchange(device_->synchroniser(), device_->learner());
    const TrainedSet* const set = exchange.set();
    OP_REQUIRES(context, set != nullptr && index_ < set->num_gradients(),
                OutsideLearningRun(*this));
    const auto all = exchange.AllGather(index_, this);
    OP_REQUIRES(context, !all.empty(), Discarded());
    absl::Status status;
    if (all.front() == this) {
      status = Detach(context);
      if (votes_ && status.ok()) exchange.Vote(index_);
    }
    exchange.Release(index_);
    OP_REQUIRES_OK(context, status);
    OP_REQUIRES(context, !exchange.Aborted(), Discarded());
  }

 private:
  // Moves variables with other references to new buffers, so that the old values stay.
  // Resources stay locked until their updates have been made (fused_update_kernel.h).
  absl::Status Detach(tf::OpKernelContext* context) const {
    std::vector<VariableInput> variables(num_inputs());
    std::vector<tf::mutex*> mutexes;
    for (int i = 0; i < num_inputs(); ++i) {
      TF_RETURN_IF_ERROR(VariableInput::Open(context, i, &variables[i]));
      if (variables[i].is_resource()) mutexes.push_back(variables[i].mu());
    }
    device_->held_mutexes().Lock(std::move(mutexes));
    for (int i = 0; i < num_inputs(); ++i) {
      if (variables[i].is_resource()) {
        TF_RETURN_IF_ERROR(DetachResource(variables[i]));
        continue;
      }
      const tf::mutex_lock lock(*variables[i].mu());
      TF_RETURN_IF_ERROR(DetachReference(context, i));
    }
    return absl::OkStatus();
  }

  static absl::Status DetachResource(const VariableInput& variable) {
    tf::Tensor own;
    return variable.Tensor(/*locked=*/true, CopyElements, &own);
  }

  // Drops the variable's own reference while the others are counted.
  static absl::Status DetachReference(tf::OpKernelContext* context, int i) {
    tf::Tensor value = context->mutable_input(i, /*lock_held=*/true);
    context->replace_ref_input(i, tf::Tensor(value.dtype()), /*lock_held=*/true);
    absl::Status status;
    if (value.IsInitialized() && !value.RefCountIsOne()) {
      tf::Tensor own;
      status = context->allocate_temp(value.dtype(), value.shape(), &own);
      if (status.ok()) status = CopyElements(value, &own);
      if (status.ok()) value = own;
    }
    context->replace_ref_input(i, value, /*lock_held=*/true);
    return status;
  }

  LearnerDevice* const device_;
  int index_ = 0;
  bool votes_ = false;
};

REGISTER_KERNEL_BUILDER(Name("TensorBowBeginUpdates").Device(tf::DEVICE_CPU),
                        BeginUpdatesKernel);

}  // namespace
}  // namespace tensorbow
