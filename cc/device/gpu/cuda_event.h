// A place in a stream's order of work that other streams, or the host, can wait for.
//
// Recording it again moves it; who has begun to wait keeps waiting for the place of
// then. Before the first Record() nothing waits. Owns the CUDA event, which belongs to
// the GPU that is current at the first Record() or Create(). Record() is not to be
// called concurrently with itself, all else may be.
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

  // Makes the event on the current GPU, if that has not been done.
  CudaError Create();
  // After everything enqueued on `stream`, which is one of the current GPU.
  CudaError Record(void* stream);
  // What is enqueued on `stream` from now on, of any GPU, waits for it. If the stream
  // is being captured, the wait is part of the graph: every launch of the graph waits
  // for the place that the event had last been recorded at. REQUIRES then: Create() or
  // Record() was called.
  CudaError Wait(void* stream) const;
  // Whether that place has been reached; `*done` is true if it was never recorded.
  CudaError Done(bool* done) const;
  // Blocks until it has been reached.
  CudaError Synchronise() const;

 private:
  void* event_ = nullptr;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_GPU_CUDA_EVENT_H_
