// Averages gradients over the learners; on other devices they stay as they are.
#include "absl/strings/str_cat.h"
#include "cc/device/learner_device.h"
#include "cc/synchroniser/ssgd.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_ops/kernels/indices.h"
#include "tf_ops/kernels/learner_errors.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

// What kernels that reduce have in common.
class ReduceKernel : public tf::OpKernel {
 public:
  explicit ReduceKernel(tf::OpKernelConstruction* construction)
      : OpKernel(construction),
        device_(dynamic_cast<LearnerDevice*>(construction->device())) {
    OP_REQUIRES_OK(construction, construction->GetAttr("index", &index_));
    tf::DataType dtype;
    OP_REQUIRES_OK(construction, construction->GetAttr("T", &dtype));
    type_ = dtype == tf::DT_DOUBLE     ? ElementType::kFloat64
            : dtype == tf::DT_HALF     ? ElementType::kFloat16
            : dtype == tf::DT_BFLOAT16 ? ElementType::kBfloat16
                                       : ElementType::kFloat32;
  }

  void Compute(tf::OpKernelContext* context) override {
    if (device_ == nullptr) {
      for (int i = 0; i < num_inputs(); ++i) context->set_output(i, context->input(i));
      return;
    }
    Synchroniser* const synchroniser = device_->synchroniser();
    OP_REQUIRES(context,
                synchroniser != nullptr && synchroniser->set() != nullptr &&
                    index_ < synchroniser->set()->num_gradients(),
                OutsideLearningRun(*this));
    OP_REQUIRES_OK(context, Reduce(context, synchroniser));
  }

 protected:
  virtual absl::Status Reduce(tf::OpKernelContext* context,
                              Synchroniser* synchroniser) = 0;

  int learner() const { return device_->learner(); }
  int index() const { return index_; }
  ElementType type() const { return type_; }

 private:
  LearnerDevice* const device_;
  int index_ = 0;
  ElementType type_ = ElementType::kFloat32;
};

class ReduceGradientKernel : public ReduceKernel {
 public:
  using ReduceKernel::ReduceKernel;

 private:
  absl::Status Reduce(tf::OpKernelContext* context,
                      Synchroniser* synchroniser) override {
    const tf::Tensor& gradient = context->input(0);
    tf::Tensor* mean = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(0, gradient.shape(), &mean));
    const bool reduced =
        ReduceGradient(synchroniser, learner(), index(), type(), gradient.NumElements(),
                       gradient.data(), mean->data());
    return reduced ? absl::OkStatus() : Discarded();
  }
};

class ReduceRowsKernel : public ReduceKernel {
 public:
  using ReduceKernel::ReduceKernel;

 private:
  absl::Status Reduce(tf::OpKernelContext* context,
                      Synchroniser* synchroniser) override {
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
    if (!ReduceRows(synchroniser, learner(), index(), own, allocate)) {
      return Discarded();
    }
    return status;
  }
};

REGISTER_KERNEL_BUILDER(Name("TensorBowReduceGradient").Device(tf::DEVICE_CPU),
                        ReduceGradientKernel);
REGISTER_KERNEL_BUILDER(Name("TensorBowReduceRows").Device(tf::DEVICE_CPU),
                        ReduceRowsKernel);

}  // namespace
}  // namespace tensorbow
