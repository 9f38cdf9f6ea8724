// The base of kernels in which the learners of an iteration wait for each other.
#ifndef TENSORBOW_TF_OPS_KERNELS_EXCHANGE_KERNEL_H_
#define TENSORBOW_TF_OPS_KERNELS_EXCHANGE_KERNEL_H_

#include <vector>

#include "cc/device/learner_device.h"
#include "cc/synchroniser/learner_exchange.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_ops/kernels/learner_errors.h"

namespace tensorbow {

class ExchangeKernel : public tensorflow::OpKernel {
 public:
  explicit ExchangeKernel(tensorflow::OpKernelConstruction* construction)
      : OpKernel(construction),
        device_(dynamic_cast<LearnerDevice*>(construction->device())) {
    OP_REQUIRES_OK(construction, construction->GetAttr("index", &index_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    if (index_ < 0) return ComputeAlone(context);
    OP_REQUIRES(context, device_ != nullptr, OnLearnersOnly(*this));
    const TrainedSet* const set = exchange().set();
    OP_REQUIRES(context, set != nullptr && index_ < set->num_gradients(),
                OutsideLearningRun(*this));
    OP_REQUIRES_OK(context, ComputeTogether(context));
  }

 protected:
  // Computes the result of a learner that has all rows.
  virtual void ComputeAlone(tensorflow::OpKernelContext* context) {
    context->set_output(0, context->input(0));
  }
  virtual absl::Status ComputeTogether(tensorflow::OpKernelContext* context) = 0;

  // Passes the values of all learners, in learner order, to `use`. Values live until
  // `use` has returned on all learners.
  template <typename T, typename Use>
  absl::Status Exchange(const T& own, Use use) {
    const LearnerExchange learners = exchange();
    const std::vector<const void*> all = learners.AllGather(index_, &own);
    if (all.empty()) return Discarded();
    std::vector<const T*> values;
    for (const void* value : all) values.push_back(static_cast<const T*>(value));
    use(values);
    learners.Release(index_);
    return absl::OkStatus();
  }

  int learner() const { return device_->learner(); }
  // Returns the learner's part of the rows, times the number of learners.
  double share() const { return exchange().share(); }

 private:
  LearnerExchange exchange() const { return {device_->synchroniser(), learner()}; }

  LearnerDevice* const device_;
  int index_ = 0;
};

}  // namespace tensorbow

#endif  // TENSORBOW_TF_OPS_KERNELS_EXCHANGE_KERNEL_H_
