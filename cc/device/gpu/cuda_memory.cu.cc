#include "cc/device/gpu/cuda_memory.h"

#include <string>

#include "cc/device/gpu/cuda_call.h"

namespace tensorbow {
namespace {

// Returns an out-of-memory message with numbers.
CudaError AllocationText(const char* call, cudaError_t result, size_t size_bytes) {
  if (result == cudaSuccess) return "";
  size_t free_bytes = 0, total_bytes = 0;
  cudaGetLastError();  // clears the error: a failed allocation does no harm
  cudaMemGetInfo(&free_bytes, &total_bytes);
  return CudaText(call, result) + " (asked for " + std::to_string(size_bytes) +
         " bytes; the GPU has " + std::to_string(free_bytes) + " free of " +
         std::to_string(total_bytes) + ")";
}

cudaMemcpyKind Kind(CudaCopy kind) {
  switch (kind) {
    case CudaCopy::kHostToDevice:
      return cudaMemcpyHostToDevice;
    case CudaCopy::kDeviceToHost:
      return cudaMemcpyDeviceToHost;
    case CudaCopy::kDeviceToDevice:
      break;
  }
  return cudaMemcpyDeviceToDevice;
}

}  // namespace

CudaBuffer::~CudaBuffer() {
  if (data_ == nullptr) return;
  if (pinned_) {
    cudaFreeHost(data_);
  } else {
    cudaFree(data_);
  }
}

CudaError CudaBuffer::Allocate(size_t size_bytes) {
  if (size_bytes == 0) return "";
  TENSORBOW_RETURN_IF_CUDA_ERROR(
      AllocationText("Malloc", cudaMalloc(&data_, size_bytes), size_bytes));
  size_bytes_ = size_bytes;
  pinned_ = false;
  return "";
}

CudaError CudaBuffer::AllocatePinned(size_t size_bytes) {
  if (size_bytes == 0) return "";
  TENSORBOW_RETURN_IF_CUDA_ERROR(AllocationText(
      "HostAlloc", cudaHostAlloc(&data_, size_bytes, cudaHostAllocPortable),
      size_bytes));
  size_bytes_ = size_bytes;
  pinned_ = true;
  return "";
}

CudaError CopyAsync(CudaCopy kind, const void* from, size_t size_bytes, void* to,
                    void* stream) {
  if (size_bytes == 0) return "";
  return TENSORBOW_CUDA(
      MemcpyAsync(to, from, size_bytes, Kind(kind), CudaStreamOf(stream)));
}

CudaError ClearAsync(void* data, size_t size_bytes, void* stream) {
  if (size_bytes == 0) return "";
  return TENSORBOW_CUDA(MemsetAsync(data, 0, size_bytes, CudaStreamOf(stream)));
}

}  // namespace tensorbow
