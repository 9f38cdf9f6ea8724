// The input of sparse updates that selects rows of a variable.
#ifndef TENSORBOW_TF_OPS_KERNELS_INDICES_H_
#define TENSORBOW_TF_OPS_KERNELS_INDICES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

// Returns the rows. `indices`: int32 or int64.
inline std::vector<int64_t> RowsOf(const tensorflow::Tensor& indices) {
  std::vector<int64_t> rows(indices.NumElements());
  if (indices.dtype() == tensorflow::DT_INT32) {
    std::copy_n(indices.flat<int32_t>().data(), rows.size(), rows.begin());
  } else {
    std::copy_n(indices.flat<int64_t>().data(), rows.size(), rows.begin());
  }
  return rows;
}

// Sets `indices`, int32 or int64, of as many elements, to the rows.
inline void SetRows(const std::vector<int64_t>& rows, tensorflow::Tensor* indices) {
  if (indices->dtype() == tensorflow::DT_INT32) {
    std::copy(rows.begin(), rows.end(), indices->flat<int32_t>().data());
  } else {
    std::copy(rows.begin(), rows.end(), indices->flat<int64_t>().data());
  }
}

}  // namespace tensorbow

#endif  // TENSORBOW_TF_OPS_KERNELS_INDICES_H_
