#include "cc/device/gpu/cuda_graph.h"

#include <vector>

#include "cc/device/gpu/cuda_call.h"

namespace tensorbow {
namespace {

bool IsOnHost(const void* address) {
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, address) != cudaSuccess) {
    cudaGetLastError();  // memory that CUDA does not know is the host's
    return true;
  }
  return attributes.type == cudaMemoryTypeHost ||
         attributes.type == cudaMemoryTypeUnregistered;
}

CudaError CheckCopy(cudaGraphNode_t node) {
  cudaMemcpy3DParms copy;
  TENSORBOW_RETURN_IF_CUDA_ERROR(TENSORBOW_CUDA(GraphMemcpyNodeGetParams(node, &copy)));
  const void* const from = copy.srcPtr.ptr;
  const void* const to = copy.dstPtr.ptr;
  if ((from != nullptr && IsOnHost(from)) || (to != nullptr && IsOnHost(to))) {
    return "the task copies from or to host memory";
  }
  return "";
}

CudaError CheckNodes(cudaGraph_t graph);

CudaError CheckNode(cudaGraphNode_t node) {
  cudaGraphNodeType type;
  TENSORBOW_RETURN_IF_CUDA_ERROR(TENSORBOW_CUDA(GraphNodeGetType(node, &type)));
  switch (type) {
    case cudaGraphNodeTypeHost:
      return "the task has the device call the host";
    case cudaGraphNodeTypeMemcpy:
      return CheckCopy(node);
    case cudaGraphNodeTypeGraph: {
      cudaGraph_t child = nullptr;
      TENSORBOW_RETURN_IF_CUDA_ERROR(
          TENSORBOW_CUDA(GraphChildGraphNodeGetGraph(node, &child)));
      return CheckNodes(child);
    }
    default:
      return "";
  }
}

// Finds nodes that launches of the graph cannot repeat; a graph owns no host memory.
CudaError CheckNodes(cudaGraph_t graph) {
  size_t count = 0;
  TENSORBOW_RETURN_IF_CUDA_ERROR(TENSORBOW_CUDA(GraphGetNodes(graph, nullptr, &count)));
  std::vector<cudaGraphNode_t> nodes(count);
  if (count == 0) return "";
  TENSORBOW_RETURN_IF_CUDA_ERROR(
      TENSORBOW_CUDA(GraphGetNodes(graph, nodes.data(), &count)));
  for (cudaGraphNode_t node : nodes) TENSORBOW_RETURN_IF_CUDA_ERROR(CheckNode(node));
  return "";
}

}  // namespace

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
  if (error.empty()) error = CheckNodes(graph);
  if (error.empty()) {
    cudaGraphExec_t executable = nullptr;
    error = TENSORBOW_CUDA(GraphInstantiate(&executable, graph, 0));
    if (error.empty()) executable_ = executable;
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  // Clears the error, which the next call would report otherwise.
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
