// Memory of a GPU, page-locked memory of the host, and copies.
#ifndef TENSORBOW_CC_DEVICE_GPU_CUDA_MEMORY_H_
#define TENSORBOW_CC_DEVICE_GPU_CUDA_MEMORY_H_

#include <cstddef>
#include <utility>

#include "cc/device/gpu/cuda_error.h"

namespace tensorbow {

// Memory of fixed size and unspecified content, aligned to 256 bytes. Move-only; owns
// it. REQUIRES at destruction: no enqueued work uses it.
class CudaBuffer {
 public:
  CudaBuffer() = default;
  ~CudaBuffer();
  CudaBuffer(CudaBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_bytes_(std::exchange(other.size_bytes_, 0)),
        pinned_(other.pinned_) {}
  CudaBuffer& operator=(CudaBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(pinned_, other.pinned_);
    return *this;
  }

  // Allocate on the current GPU, or on the host for access by all GPUs. REQUIRES: the
  // buffer is empty.
  CudaError Allocate(size_t size_bytes);
  CudaError AllocatePinned(size_t size_bytes);

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  void* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  void* data_ = nullptr;
  size_t size_bytes_ = 0;
  bool pinned_ = false;
};

// Copies, in the stream's order. Host memory that is not page-locked has been read, or
// written, when the call returns.
enum class CudaCopy { kHostToDevice, kDeviceToHost, kDeviceToDevice };
CudaError CopyAsync(CudaCopy kind, const void* from, size_t size_bytes, void* to,
                    void* stream);
// Sets device memory to zero bytes.
CudaError ClearAsync(void* data, size_t size_bytes, void* stream);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_GPU_CUDA_MEMORY_H_
