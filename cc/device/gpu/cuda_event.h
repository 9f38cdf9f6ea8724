// A place in a stream's order of work that other streams, or the host, can wait for.
//
// Recording it again moves it; a wait that has begun is still for the old place. Before
// the first Record() nothing waits. Owns the CUDA event, which belongs to the GPU that
// is current at the first Record() or Create(). Record() must not be called
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
  // Makes what is enqueued on `stream` from now on, of any GPU, wait for it. If the
  // stream is being captured, the wait is part of the graph: every launch of the graph
  // waits for the place that the event had last been recorded at (captured_waits.h says
  // where that may be relied on). REQUIRES then: Create() or Record() was called.
  CudaError Wait(void* stream) const;
  // Blocks until the place has been reached.
  CudaError Synchronise() const;

 private:
  void* event_ = nullptr;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_GPU_CUDA_EVENT_H_
