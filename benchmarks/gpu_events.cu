// Checks that a wait for an event in a CUDA graph refers to the event's latest recording
// at the launch of the graph, as cc/device/gpu/cuda_event.h says.
//
//   nvcc -o build/gpu/events benchmarks/gpu_events.cu && timeout 60 build/gpu/events
//
// If it referred to the latest recording at its execution, this program would never end:
// the event is recorded again after the graph itself. Prints the driver's version, as
// cc/device/gpu/captured_waits.h reads it, and whether the check passed.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                    \
  if (const cudaError_t result = call; result != cudaSuccess) {        \
    std::printf("FAILED %s: %s\n", #call, cudaGetErrorString(result)); \
    std::exit(1);                                                      \
  }

__global__ void Spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}
__global__ void Set(int* place, int value) { *place = value; }
__global__ void Copy(const int* from, int* to) { *to = *from; }

int main() {
  constexpr int kRounds = 50;
  constexpr long long kCycles = 20'000'000;  // about 10 ms
  cudaStream_t compute, sync;
  cudaEvent_t prepared, ready;
  int *value, *seen;
  CHECK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&sync, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&prepared, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
  CHECK(cudaMalloc(&value, sizeof(int)));
  CHECK(cudaMalloc(&seen, kRounds * sizeof(int)));

  // The learner: a forward pass, the wait, the update.
  cudaGraphExec_t tasks[kRounds];
  for (int round = 0; round < kRounds; ++round) {
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(compute, cudaStreamCaptureModeRelaxed));
    Spin<<<1, 1, 0, compute>>>(kCycles / 10);
    CHECK(cudaStreamWaitEvent(compute, prepared, cudaEventWaitExternal));
    Copy<<<1, 1, 0, compute>>>(value, seen + round);
    CHECK(cudaStreamEndCapture(compute, &graph));
    CHECK(cudaGraphInstantiate(&tasks[round], graph, 0));
    CHECK(cudaGraphDestroy(graph));
  }
  for (int round = 0; round < kRounds; ++round) {
    CHECK(cudaStreamWaitEvent(sync, ready, 0));
    Spin<<<1, 1, 0, sync>>>(kCycles);
    Set<<<1, 1, 0, sync>>>(value, round);
    CHECK(cudaEventRecord(prepared, sync));
    CHECK(cudaGraphLaunch(tasks[round], compute));
    CHECK(cudaEventRecord(ready, compute));
  }
  CHECK(cudaStreamSynchronize(compute));
  int found[kRounds];
  CHECK(cudaMemcpy(found, seen, sizeof found, cudaMemcpyDeviceToHost));
  for (int round = 0; round < kRounds; ++round) {
    if (found[round] != round) {
      std::printf("FAILED round %d saw %d: the graph did not wait\n", round,
                  found[round]);
      return 1;
    }
  }
  int driver = 0;
  CHECK(cudaDriverGetVersion(&driver));
  std::printf("driver %d\n", driver);
  std::printf("passed: a graph waits for what was recorded when it was launched\n");
  return 0;
}
