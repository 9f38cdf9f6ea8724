// CPU kernel of the product with a sparse matrix whose result is some rows: it checks
// what it is given, with the words of TensorFlow's kernel, and has cc/arithmetic do the
// work.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cc/arithmetic/sparse_product.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

absl::Status Outside(const SparseProduct::Factors& factors, int64_t entry) {
  const int64_t row = factors.indices[2 * entry];
  const int64_t column = factors.indices[2 * entry + 1];
  if (row < 0 || row >= factors.a_rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("k (", row, ") from index[", entry,
                     ",0] out of bounds (>=", factors.a_rows, ")"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("m (", column, ") from index[", entry,
                   ",1] out of bounds (>=", factors.a_columns, ")"));
}

class SparseProductKernel : public tf::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tf::OpKernelContext* context) override {
    SparseProduct::Factors factors;
    OP_REQUIRES_OK(context, Read(context, &factors));
    const int64_t outside = SparseProduct::FirstOutside(factors);
    OP_REQUIRES(context, outside < 0, Outside(factors, outside));
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

 private:
  static absl::Status Read(tf::OpKernelContext* context,
                           SparseProduct::Factors* factors) {
    const tf::Tensor& indices = context->input(0);
    const tf::Tensor& values = context->input(1);
    const tf::Tensor& shape = context->input(2);
    const tf::Tensor& b = context->input(3);
    if (indices.dims() != 2 || indices.dim_size(1) != 2 || values.dims() != 1 ||
        values.dim_size(0) != indices.dim_size(0) || shape.dims() != 1 ||
        shape.dim_size(0) != 2 || b.dims() != 2) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Got a sparse matrix of indices ", indices.shape().DebugString(), ", values ",
          values.shape().DebugString(), " and shape ", shape.shape().DebugString(),
          " and a dense one of shape ", b.shape().DebugString(),
          "; wanted [n,2], [n], [2] and a matrix"));
    }
    const auto* const sizes = static_cast<const int64_t*>(shape.data());
    if (sizes[0] != b.dim_size(0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Cannot multiply A and B because inner dimension does not match: ", sizes[0],
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
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("TensorBowSparseProduct").Device(tf::DEVICE_CPU),
                        SparseProductKernel);

}  // namespace
}  // namespace tensorbow
