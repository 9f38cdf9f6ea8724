#include "cc/device/gpu/cuda_graph.h"

#include "cc/device/gpu/cuda_call.h"

namespace tensorbow {

CudaGraph::~CudaGraph() {
  if (executable_ != nullptr) {
    cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_));
  }
}

CudaError CudaGraph::Begin(void* stream) {
  return TENSORBOW_CUDA(
      StreamBeginCapture(CudaStreamOf(stream), cudaStreamCaptureModeRelaxed));
}

CudaError CudaGraph::End(void* stream) {
  cudaGraph_t graph = nullptr;
  CudaError error = TENSORBOW_CUDA(StreamEndCapture(CudaStreamOf(stream), &graph));
  if (error.empty()) {
    cudaGraphExec_t executable = nullptr;
    error = TENSORBOW_CUDA(GraphInstantiate(&executable, graph, 0));
    if (error.empty()) executable_ = executable;
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  // A failed recording must not be the next call's error.
  if (!error.empty()) cudaGetLastError();
  return error;
}

CudaError CudaGraph::Launch(void* stream) const {
  return TENSORBOW_CUDA(
      GraphLaunch(static_cast<cudaGraphExec_t>(executable_), CudaStreamOf(stream)));
}

CudaError IsRecordingBroken(void* stream, bool* broken) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CudaError error = TENSORBOW_CUDA(StreamIsCapturing(CudaStreamOf(stream), &status));
  *broken = !error.empty() || status != cudaStreamCaptureStatusActive;
  return error;
}

}  // namespace tensorbow
