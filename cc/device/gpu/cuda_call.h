// Calls of the CUDA runtime. Only CUDA files (*.cu.cc) include this.
#ifndef TENSORBOW_CC_DEVICE_GPU_CUDA_CALL_H_
#define TENSORBOW_CC_DEVICE_GPU_CUDA_CALL_H_

#include <cuda_runtime.h>

#include <string>

#include "cc/device/gpu/cuda_error.h"

namespace tensorbow {

// Describes `result`: the call that failed, and the reason.
inline CudaError CudaText(const char* call, cudaError_t result) {
  if (result == cudaSuccess) return "";
  return std::string(call) + ": " + cudaGetErrorName(result) + ", " +
         cudaGetErrorString(result);
}

// TENSORBOW_CUDA(Function(arguments)) calls the runtime's cudaFunction.
#define TENSORBOW_CUDA(call) ::tensorbow::CudaText(#call, cuda##call)

inline cudaStream_t CudaStreamOf(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_GPU_CUDA_CALL_H_
