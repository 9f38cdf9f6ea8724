#include "cc/device/gpu/cuda_event.h"

#include "cc/device/gpu/cuda_call.h"
#include "cc/device/gpu/cuda_stream.h"

namespace tensorbow {
namespace {

cudaEvent_t Event(void* event) { return static_cast<cudaEvent_t>(event); }

}  // namespace

CudaEvent::~CudaEvent() {
  if (event_ != nullptr) cudaEventDestroy(Event(event_));
}

CudaError CudaEvent::Create() {
  if (event_ != nullptr) return "";
  cudaEvent_t event = nullptr;
  TENSORBOW_RETURN_IF_CUDA_ERROR(
      TENSORBOW_CUDA(EventCreateWithFlags(&event, cudaEventDisableTiming)));
  event_ = event;
  return "";
}

CudaError CudaEvent::Record(void* stream) {
  TENSORBOW_RETURN_IF_CUDA_ERROR(Create());
  return TENSORBOW_CUDA(EventRecord(Event(event_), CudaStreamOf(stream)));
}

CudaError CudaEvent::Wait(void* stream) const {
  if (event_ == nullptr) return "";
  bool capturing = false;
  TENSORBOW_RETURN_IF_CUDA_ERROR(IsCapturing(stream, &capturing));
  return TENSORBOW_CUDA(
      StreamWaitEvent(CudaStreamOf(stream), Event(event_),
                      capturing ? cudaEventWaitExternal : cudaEventWaitDefault));
}

CudaError CudaEvent::Synchronise() const {
  if (event_ == nullptr) return "";
  return TENSORBOW_CUDA(EventSynchronize(Event(event_)));
}

}  // namespace tensorbow
