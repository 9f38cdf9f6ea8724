// A position in a stream's work that other streams, or the host, can wait for.
//
// Recording it again moves it; a wait that is already enqueued keeps the old position.
// Before the first Record() nothing waits. Owns the CUDA event, which belongs to the
// GPU that is current at the first Record() or Create(). Record() must not be called
// concurrently with itself; everything else may be.
#ifndef TENSORBOW_CC_DEVICE_GPU_CUDA_EVENT_H_
#define TENSORBOW_CC_DEVICE_GPU_CUDA_EVENT_H_

#include <utility>

#include "cc/device/gpu/cuda_error.h"

namespace tensorbow {

class CudaEvent {
 public:
  CudaEvent() = default;
  ~CudaEvent();
  CudaEvent(CudaEvent&& other) noexcept
      : event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }

  // Makes the event on the current GPU, unless it exists.
  CudaError Create();
  // Moves the event behind everything enqueued on `stream`, one of the current GPU.
  CudaError Record(void* stream);
  // Makes later work on `stream`, of any GPU, wait for the event. If the stream is
  // being captured, the wait is part of the graph: every launch of the graph waits for
  // the latest recorded position (captured_waits.h says when that is reliable).
  // REQUIRES then: Create() or Record() was called.
  CudaError Wait(void* stream) const;
  // Blocks until the stream has reached the position.
  CudaError Synchronise() const;

 private:
  void* event_ = nullptr;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_GPU_CUDA_EVENT_H_
