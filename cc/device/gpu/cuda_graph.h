// A stream's work, recorded as a CUDA graph. Includes no CUDA header.
#ifndef TENSORBOW_CC_DEVICE_GPU_CUDA_GRAPH_H_
#define TENSORBOW_CC_DEVICE_GPU_CUDA_GRAPH_H_

#include <utility>

#include "cc/device/gpu/cuda_error.h"

namespace tensorbow {

// Owns the executable graph. REQUIRES at destruction: no launch is under way.
class CudaGraph {
 public:
  CudaGraph() = default;
  ~CudaGraph();
  CudaGraph(CudaGraph&& other) noexcept
      : executable_(std::exchange(other.executable_, nullptr)) {}
  CudaGraph& operator=(CudaGraph&& other) noexcept {
    std::swap(executable_, other.executable_);
    return *this;
  }

  // Record the work enqueued on `stream` between the two, without executing it. End()
  // must be called if Begin() succeeded, also after an error; then the stream is as
  // before. A graph that would touch host memory or call the host is an error, since
  // that memory is gone at a launch. Other threads may continue to use CUDA.
  CudaError Begin(void* stream);
  CudaError End(void* stream);

  CudaError Launch(void* stream) const;

 private:
  void* executable_ = nullptr;
};

// Sets `*broken` if work enqueued on `stream` since Begin() cannot be recorded.
CudaError IsRecordingBroken(void* stream, bool* broken);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_GPU_CUDA_GRAPH_H_
