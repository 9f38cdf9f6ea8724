// Work of a stream, recorded as a CUDA graph. No CUDA header here.
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

  // What is enqueued on `stream` between these two is recorded and not executed. End()
  // must be called if Begin() succeeded, also after an error; then the stream is as
  // before. Other threads may go on using CUDA meanwhile.
  CudaError Begin(void* stream);
  CudaError End(void* stream);

  CudaError Launch(void* stream) const;

 private:
  void* executable_ = nullptr;
};

// Whether something that was enqueued on `stream` since Begin() cannot be recorded.
CudaError IsRecordingBroken(void* stream, bool* broken);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_GPU_CUDA_GRAPH_H_
