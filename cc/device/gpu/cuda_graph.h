// Work of a stream, recorded as a CUDA graph. Includes no CUDA header.
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

  // Record, and do not execute, what is enqueued on `stream` between the two. End()
  // must be called if Begin() succeeded, also after an error; then the stream is as
  // before. It is an error if the graph would touch host memory or call the host when
  // it is launched: what was there is gone by then. Other threads may go on using CUDA.
  CudaError Begin(void* stream);
  CudaError End(void* stream);

  CudaError Launch(void* stream) const;

 private:
  void* executable_ = nullptr;
};

// Tells whether something that was enqueued on `stream` since Begin() cannot be
// recorded.
CudaError IsRecordingBroken(void* stream, bool* broken);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_GPU_CUDA_GRAPH_H_
