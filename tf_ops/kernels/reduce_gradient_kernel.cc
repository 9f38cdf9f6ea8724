// Kernels that average gradients over the learners; on other devices these do not
// change.
#include "absl/strings/str_cat.h"
#include "cc/device/learner_device.h"
#include "cc/graph/element_types.h"
#include "cc/synchroniser/algorithms/ssgd.h"
#include "cc/synchroniser/hosts/host_gradients.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_ops/kernels/indices.h"
#include "tf_ops/kernels/learner_errors.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

// The common part of kernels that reduce.
class ReduceKernel : public tf::OpKernel {
 public:
  explicit ReduceKernel(tf::OpKernelConstruction* construction)
      : OpKernel(construction),
        device_(dynamic_cast<LearnerDevice*>(construction->device())) {
    OP_REQUIRES_OK(construction, construction->GetAttr("index", &index_));
    tf::DataType dtype;
    OP_REQUIRES_OK(construction, construction->GetAttr("T", &dtype));
    type_ = ElementTypeOf(dtype);
  }

  void Compute(tf::OpKernelContext* context) override {
    if (device_ == nullptr) {
      for (int i = 0; i < num_outputs(); ++i) context->set_output(i, context->input(i));
      return;
    }
    const LearnerExchange exchange(device_->synchroniser(), device_->learner());
    const TrainedSet* const set = exchange.set();
    OP_REQUIRES(context, set != nullptr && index_ < set->num_gradients(),
                OutsideLearningRun(*this));
    OP_REQUIRES_OK(context, Reduce(context, exchange));
  }

 protected:
  virtual absl::Status Reduce(tf::OpKernelContext* context,
                              const LearnerExchange& exchange) = 0;

  int index() const { return index_; }
  ElementType type() const { return type_; }

 private:
  LearnerDevice* const device_;
  int index_ = 0;
  ElementType type_ = ElementType::kFloat32;
};

// Returns the hosts' sum of a gradient of this size; null if there is none.
HostGradients* SumsOf(const LearnerExchange& exchange, int index,
                      const tf::Tensor& gradient) {
  HostGradients* const sums = exchange.set()->host_gradients.get();
  const bool known = sums != nullptr && index < sums->size() &&
                     sums->gradient(index).size == gradient.NumElements();
  return known ? sums : nullptr;
}

absl::Status OtherSize(const tf::OpKernel& kernel, const tf::Tensor& gradient) {
  return absl::FailedPreconditionError(absl::StrCat(
      "The gradient at ", kernel.name(), " has got the shape ",
      gradient.shape().DebugString(), ", which is not its variable's. ",
      "Hosts that average gradients have to know their sizes. Use tensorbow.SMA()"));
}

class SendGradientKernel : public ReduceKernel {
 public:
  using ReduceKernel::ReduceKernel;

 private:
  absl::Status Reduce(tf::OpKernelContext* context,
                      const LearnerExchange& exchange) override {
    const tf::Tensor& gradient = context->input(0);
    if (SumsOf(exchange, index(), gradient) == nullptr) {
      return OtherSize(*this, gradient);
    }
    return SendGradient(exchange, index(), gradient.data()) ? absl::OkStatus()
                                                            : Discarded();
  }
};

class ReduceGradientKernel : public ReduceKernel {
 public:
  explicit ReduceGradientKernel(tf::OpKernelConstruction* construction)
      : ReduceKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("sent", &sent_));
  }

 private:
  absl::Status Reduce(tf::OpKernelContext* context,
                      const LearnerExchange& exchange) override {
    const tf::Tensor& gradient = context->input(0);
    tf::Tensor* mean = nullptr;
    if (sent_) {
      const HostGradients* const sums = SumsOf(exchange, index(), gradient);
      if (sums == nullptr) return OtherSize(*this, gradient);
      TF_RETURN_IF_ERROR(
          context->forward_input_or_allocate_output({0}, 0, gradient.shape(), &mean));
      sums->Mean(index(), mean->data());
      return absl::OkStatus();
    }
    TF_RETURN_IF_ERROR(context->allocate_output(0, gradient.shape(), &mean));
    const bool reduced =
        ReduceGradient(exchange, index(), type(), gradient.NumElements(),
                       gradient.data(), mean->data());
    return reduced ? absl::OkStatus() : Discarded();
  }

  bool sent_ = false;
};

class ReduceRowsKernel : public ReduceKernel {
 public:
  using ReduceKernel::ReduceKernel;

 private:
  absl::Status Reduce(tf::OpKernelContext* context,
                      const LearnerExchange& exchange) override {
    const tf::Tensor& gradient = context->input(0);
    const tf::Tensor& indices = context->input(1);
    tf::TensorShape row = gradient.shape();
    for (int d = 0; d < indices.dims(); ++d) {
      if (row.dims() == 0 || row.dim_size(0) != indices.dim_size(d)) {
        return absl::InvalidArgumentError(
            absl::StrCat("Got a gradient of shape ", gradient.shape().DebugString(),
                         " for indices of shape ", indices.shape().DebugString(),
                         "; the first dimensions must be those of the indices"));
      }
      row.RemoveDim(0);
    }
    const RowGradient own{type(), RowsOf(indices), row.num_elements(), gradient.data()};
    absl::Status status;
    const auto allocate = [&](const std::vector<int64_t>& rows) -> void* {
      tf::TensorShape shape = row;
      shape.InsertDim(0, static_cast<int64_t>(rows.size()));
      tf::Tensor *mean = nullptr, *reduced_rows = nullptr;
      status = context->allocate_output(0, shape, &mean);
      if (status.ok()) {
        status = context->allocate_output(1, {shape.dim_size(0)}, &reduced_rows);
      }
      if (!status.ok()) return nullptr;
      SetRows(rows, reduced_rows);
      return mean->data();
    };
    if (!ReduceRows(exchange, index(), own, allocate)) {
      return Discarded();
    }
    return status;
  }
};

REGISTER_KERNEL_BUILDER(Name("TensorBowSendGradient").Device(tf::DEVICE_CPU),
                        SendGradientKernel);
REGISTER_KERNEL_BUILDER(Name("TensorBowReduceGradient").Device(tf::DEVICE_CPU),
                        ReduceGradientKernel);
REGISTER_KERNEL_BUILDER(Name("TensorBowReduceRows").Device(tf::DEVICE_CPU),
                        ReduceRowsKernel);

}  // namespace
}  // namespace tensorbow
