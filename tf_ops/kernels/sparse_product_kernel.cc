// CPU kernels of products with a sparse matrix. They check their inputs with the error
// messages of TensorFlow's kernel, and let cc/arithmetic do the work.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/arithmetic/sparse_product.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

// Returns the error that names the entry outside. `transposed`: whether a is.
absl::Status Outside(const SparseProduct::Factors& factors, bool transposed,
                     int64_t entry) {
  const int k = transposed ? 0 : 1;  // the dimension that is summed over
  for (const auto& [name, dimension] : {std::pair("k", k), std::pair("m", 1 - k)}) {
    const int64_t index = factors.indices[2 * entry + dimension];
    const int64_t size = dimension == 0 ? factors.a_rows : factors.a_columns;
    if (index >= 0 && index < size) continue;
    return absl::InvalidArgumentError(absl::StrCat(name, " (", index, ") from index[",
                                                   entry, ",", dimension,
                                                   "] out of bounds (>=", size, ")"));
  }
  return absl::OkStatus();
}

// Reads the inputs of a·b or, if `transposed`, aᵀ·b.
absl::Status Read(const tf::OpKernelContext& context, bool transposed,
                  SparseProduct::Factors* factors) {
  const tf::Tensor& indices = context.input(0);
  const tf::Tensor& values = context.input(1);
  const tf::Tensor& shape = context.input(2);
  const tf::Tensor& b = context.input(3);
  if (indices.dims() != 2 || indices.dim_size(1) != 2 || values.dims() != 1 ||
      values.dim_size(0) != indices.dim_size(0) || shape.dims() != 1 ||
      shape.dim_size(0) != 2 || b.dims() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("Got a sparse matrix of indices ", indices.shape().DebugString(),
                     ", values ", values.shape().DebugString(), " and shape ",
                     shape.shape().DebugString(), " and a dense one of shape ",
                     b.shape().DebugString(), "; wanted [n,2], [n], [2] and a matrix"));
  }
  const auto* const sizes = static_cast<const int64_t*>(shape.data());
  const int64_t inner = sizes[transposed ? 0 : 1];
  if (inner != b.dim_size(0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Cannot multiply A and B because inner dimension does not match: ", inner,
        " vs. ", b.dim_size(0), ".  Did you forget a transpose?  Dimensions of A: [",
        sizes[0], ", ", sizes[1], ").  Dimensions of B: ", b.shape().DebugString()));
  }
  *factors = {static_cast<const int64_t*>(indices.data()),
              static_cast<const float*>(values.data()),
              values.dim_size(0),
              sizes[0],
              sizes[1],
              static_cast<const float*>(b.data()),
              b.dim_size(1)};
  const int64_t outside = SparseProduct::FirstOutside(*factors);
  return outside < 0 ? absl::OkStatus() : Outside(*factors, transposed, outside);
}

class WholeProductKernel : public tf::OpKernel {
 public:
  explicit WholeProductKernel(tf::OpKernelConstruction* construction)
      : OpKernel(construction) {
    bool adjoint_b = false;
    OP_REQUIRES_OK(construction, construction->GetAttr("adjoint_a", &adjoint_a_));
    OP_REQUIRES_OK(construction, construction->GetAttr("adjoint_b", &adjoint_b));
    OP_REQUIRES(construction, !adjoint_b,
                absl::InvalidArgumentError("adjoint_b is for TensorFlow's op"));
  }

  void Compute(tf::OpKernelContext* context) override {
    SparseProduct::Factors factors;
    OP_REQUIRES_OK(context, Read(*context, adjoint_a_, &factors));
    tf::TensorShape shape;
    OP_REQUIRES_OK(
        context, tf::TensorShape::BuildTensorShape(
                     {adjoint_a_ ? factors.a_columns : factors.a_rows, factors.columns},
                     &shape));
    tf::Tensor* product = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &product));
    SparseProduct::Whole(factors, adjoint_a_, static_cast<float*>(product->data()));
  }

 private:
  bool adjoint_a_ = false;
};

class SparseProductKernel : public tf::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tf::OpKernelContext* context) override {
    SparseProduct::Factors factors;
    OP_REQUIRES_OK(context, Read(*context, /*transposed=*/true, &factors));
    const SparseProduct product(factors);
    const auto count = static_cast<int64_t>(product.rows().size());
    tf::Tensor *values = nullptr, *rows = nullptr, *shape = nullptr;
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, {count, factors.columns}, &values));
    OP_REQUIRES_OK(context, context->allocate_output(1, {count}, &rows));
    OP_REQUIRES_OK(context, context->allocate_output(2, {2}, &shape));
    product.Compute(static_cast<float*>(values->data()));
    std::copy(product.rows().begin(), product.rows().end(),
              static_cast<int64_t*>(rows->data()));
    shape->flat<int64_t>()(0) = factors.a_columns;
    shape->flat<int64_t>()(1) = factors.columns;
  }
};

REGISTER_KERNEL_BUILDER(Name("TensorBowSparseTensorDenseMatMul").Device(tf::DEVICE_CPU),
                        WholeProductKernel);
REGISTER_KERNEL_BUILDER(Name("TensorBowSparseProduct").Device(tf::DEVICE_CPU),
                        SparseProductKernel);

}  // namespace
}  // namespace tensorbow
