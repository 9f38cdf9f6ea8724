// Errors of the CUDA files, for files that include no CUDA header: a text, empty if
// there is none.
#ifndef TENSORBOW_CC_DEVICE_GPU_CUDA_ERROR_H_
#define TENSORBOW_CC_DEVICE_GPU_CUDA_ERROR_H_

#include <string>

namespace tensorbow {

using CudaError = std::string;

// Returns from the calling function if `expression` is not empty.
#define TENSORBOW_RETURN_IF_CUDA_ERROR(expression)                           \
  if (::tensorbow::CudaError cuda_error = (expression); !cuda_error.empty()) \
  return cuda_error

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_GPU_CUDA_ERROR_H_
