// Rows of a fed sparse tensor, whose indices are in order of the rows (TensorFlow's
// canonical order). Pure functions.
#ifndef TENSORBOW_CC_FEEDS_SPARSE_ROWS_H_
#define TENSORBOW_CC_FEEDS_SPARSE_ROWS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

// The names of a sparse tensor's indices, values and dense shape, by each of its parts
// that is fed; empty names for other composite tensors.
using SparseFeeds = std::map<std::string, std::array<std::string, 3>>;

// The positions of a sparse tensor's parts among a run's feeds.
struct SparseParts {
  int indices;  // int64 [n, rank]
  int values;   // [n]
  int shape;    // int64 [rank]
};

// Returns the reason why the value cannot be divided by rows; empty if it can.
std::string WhyNotByRows(const tensorflow::Tensor& indices,
                         const tensorflow::Tensor& values,
                         const tensorflow::Tensor& shape);
int64_t NumRows(const tensorflow::Tensor& shape);

struct SparseValue {
  tensorflow::Tensor indices, values, shape;
};
// Returns rows [begin, end) of a divisible value, numbered from 0.
SparseValue RowsOf(const SparseValue& value, int64_t begin, int64_t end);
// Returns all rows twice, one copy of all after the other.
SparseValue RowsTwice(const SparseValue& value);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_FEEDS_SPARSE_ROWS_H_
