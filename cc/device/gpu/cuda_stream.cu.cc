#include "cc/device/gpu/cuda_stream.h"

#include <functional>
#include <memory>
#include <utility>

#include "cc/device/gpu/cuda_call.h"

namespace tensorbow {

CudaDeviceGuard::CudaDeviceGuard(int ordinal) : before_(-1) {
  int current = -1;
  error_ = TENSORBOW_CUDA(GetDevice(&current));
  if (!error_.empty()) return;
  // Is called even if the GPU is the current one: a new thread has no context yet.
  error_ = TENSORBOW_CUDA(SetDevice(ordinal));
  if (error_.empty() && current != ordinal) before_ = current;
}

CudaDeviceGuard::~CudaDeviceGuard() {
  if (before_ >= 0) cudaSetDevice(before_);
}

CudaStream::~CudaStream() {
  if (stream_ != nullptr) cudaStreamDestroy(CudaStreamOf(stream_));
}

CudaError CudaStream::Create(bool urgent) {
  int least = 0, greatest = 0;
  TENSORBOW_RETURN_IF_CUDA_ERROR(
      TENSORBOW_CUDA(DeviceGetStreamPriorityRange(&least, &greatest)));
  cudaStream_t stream = nullptr;
  TENSORBOW_RETURN_IF_CUDA_ERROR(TENSORBOW_CUDA(StreamCreateWithPriority(
      &stream, cudaStreamNonBlocking, urgent ? greatest : least)));
  stream_ = stream;
  return "";
}

CudaError DriverVersion(int* version) {
  return TENSORBOW_CUDA(DriverGetVersion(version));
}

CudaError SynchroniseStream(void* stream) {
  return TENSORBOW_CUDA(StreamSynchronize(CudaStreamOf(stream)));
}

CudaError EnqueueHostFunction(std::function<void()> function, void* stream) {
  auto enqueued = std::make_unique<std::function<void()>>(std::move(function));
  TENSORBOW_RETURN_IF_CUDA_ERROR(TENSORBOW_CUDA(LaunchHostFunc(
      CudaStreamOf(stream),
      [](void* given) {
        std::unique_ptr<std::function<void()>>(
            static_cast<std::function<void()>*>(given))
            ->operator()();
      },
      enqueued.get())));
  enqueued.release();  // owned by the callback now
  return "";
}

CudaError IsCapturing(void* stream, bool* capturing) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  TENSORBOW_RETURN_IF_CUDA_ERROR(
      TENSORBOW_CUDA(StreamIsCapturing(CudaStreamOf(stream), &status)));
  *capturing = status == cudaStreamCaptureStatusActive;
  return "";
}

}  // namespace tensorbow
