#include "cc/feeds/sparse_rows.h"

#include "tensorflow/core/framework/tensor_util.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns the data of a fed tensor, which Eigen may consider unaligned.
const int64_t* Numbers(const tf::Tensor& tensor) {
  return static_cast<const int64_t*>(tensor.data());
}

// Adds `rows` to the row of every entry.
void Shift(int64_t rows, tf::Tensor* indices) {
  auto* const entries = static_cast<int64_t*>(indices->data());
  for (int64_t i = 0; i < indices->dim_size(0); ++i) {
    entries[i * indices->dim_size(1)] += rows;
  }
}

// Returns the first entry whose row is at least `row`.
int64_t FirstOf(const tf::Tensor& indices, int64_t row) {
  int64_t begin = 0, end = indices.dim_size(0);
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (Numbers(indices)[middle * indices.dim_size(1)] < row) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

tf::Tensor Copy(const tf::Tensor& tensor, int64_t begin, int64_t end) {
  return tf::tensor::DeepCopy(tensor.Slice(begin, end));
}

}  // namespace

std::string WhyNotByRows(const tf::Tensor& indices, const tf::Tensor& values,
                         const tf::Tensor& shape) {
  const bool fits = indices.dtype() == tf::DT_INT64 && shape.dtype() == tf::DT_INT64 &&
                    indices.dims() == 2 && values.dims() == 1 && shape.dims() == 1 &&
                    indices.dim_size(0) == values.dim_size(0) &&
                    indices.dim_size(1) == shape.dim_size(0) && shape.dim_size(0) > 0;
  if (!fits) return "whose parts do not fit each other";
  int64_t last = 0;
  for (int64_t i = 0; i < indices.dim_size(0); ++i) {
    const int64_t row = Numbers(indices)[i * indices.dim_size(1)];
    if (row < last) return "whose indices are not sorted by row";
    last = row;
  }
  const bool within = indices.dim_size(0) == 0 || last < NumRows(shape);
  return within ? "" : "which has indices outside of its shape";
}

int64_t NumRows(const tf::Tensor& shape) { return Numbers(shape)[0]; }

SparseValue RowsOf(const SparseValue& value, int64_t begin, int64_t end) {
  const int64_t first = FirstOf(value.indices, begin);
  const int64_t last = FirstOf(value.indices, end);
  SparseValue rows = {Copy(value.indices, first, last), Copy(value.values, first, last),
                      tf::tensor::DeepCopy(value.shape)};
  Shift(-begin, &rows.indices);
  rows.shape.flat<int64_t>()(0) = end - begin;
  return rows;
}

SparseValue RowsTwice(const SparseValue& value) {
  tf::Tensor again = tf::tensor::DeepCopy(value.indices);
  Shift(NumRows(value.shape), &again);
  SparseValue twice;
  twice.shape = tf::tensor::DeepCopy(value.shape);
  twice.shape.flat<int64_t>()(0) *= 2;
  tf::tensor::Concat({value.indices, again}, &twice.indices).IgnoreError();
  tf::tensor::Concat({value.values, value.values}, &twice.values).IgnoreError();
  return twice;
}

}  // namespace tensorbow
