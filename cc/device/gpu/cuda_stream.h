// CUDA streams, and the GPU that receives a thread's calls. A stream that this code
// does not own is a void* (a cudaStream_t): files with TensorFlow's headers include
// this one, so it includes no CUDA header.
#ifndef TENSORBOW_CC_DEVICE_GPU_CUDA_STREAM_H_
#define TENSORBOW_CC_DEVICE_GPU_CUDA_STREAM_H_

#include <functional>
#include <utility>

#include "cc/device/gpu/cuda_error.h"

namespace tensorbow {

// Directs this thread's CUDA calls to GPU `ordinal` while it lives. Kernel launches and
// allocations need a guard for the stream's GPU.
class CudaDeviceGuard {
 public:
  explicit CudaDeviceGuard(int ordinal);
  ~CudaDeviceGuard();

  CudaDeviceGuard(const CudaDeviceGuard&) = delete;
  CudaDeviceGuard& operator=(const CudaDeviceGuard&) = delete;

  const CudaError& error() const { return error_; }

 private:
  int before_;  // the GPU to restore, or -1
  CudaError error_;
};

// A stream that does not wait for the default stream. Owns it; the destructor does not
// wait for enqueued work. Thread-safe as CUDA's streams are.
class CudaStream {
 public:
  CudaStream() = default;
  ~CudaStream();
  CudaStream(CudaStream&& other) noexcept
      : stream_(std::exchange(other.stream_, nullptr)) {}
  CudaStream& operator=(CudaStream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }

  // Makes the stream on the current GPU. `urgent`: its kernels precede those of other
  // streams. REQUIRES: called once.
  CudaError Create(bool urgent);
  void* get() const { return stream_; }

 private:
  void* stream_ = nullptr;
};

// Sets `*version` to the driver's version as CUDA numbers it: 13000 for 13.0; 0 without
// a driver.
CudaError DriverVersion(int* version);

// Blocks until everything enqueued on `stream` has been executed.
CudaError SynchroniseStream(void* stream);

// Calls `function` from a thread of the driver, in the stream's order. `function` must
// not call CUDA.
CudaError EnqueueHostFunction(std::function<void()> function, void* stream);

// Sets `*capturing` if work enqueued on `stream` becomes part of a CUDA graph.
CudaError IsCapturing(void* stream, bool* capturing);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_GPU_CUDA_STREAM_H_
