#include "cc/synchroniser/gpu/sma_kernels.h"

#include <algorithm>
#include <type_traits>

#include "cc/device/gpu/cuda_call.h"

namespace tensorbow {
namespace {

constexpr int kThreads = 256;
// Enough blocks to fill any GPU; larger work loops by the grid's stride.
constexpr int64_t kMaxGrid = 4096;

template <SmaPass pass, typename S>
__global__ void __launch_bounds__(kThreads)
    SmaKernel(SmaTable table, SmaArguments arguments, int first) {
  RunSmaBlock<pass, S>(table, arguments, first + static_cast<int>(blockIdx.x),
                       static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
}

__device__ int64_t FirstElement() {
  return int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ int64_t Stride() { return int64_t{gridDim.x} * blockDim.x; }

template <typename S, typename A = Accumulator<S>>
__global__ void Remember(const S* __restrict__ w, const A* __restrict__ z, A alpha,
                         int64_t n, A* __restrict__ c) {
  for (int64_t i = FirstElement(); i < n; i += Stride()) {
    c[i] = StoredCorrection<S>(w[i], z[i], alpha);
  }
}

template <typename S, typename A = Accumulator<S>>
__global__ void Subtract(const A* __restrict__ c, int64_t n, S* __restrict__ w) {
  for (int64_t i = FirstElement(); i < n; i += Stride()) {
    w[i] = StoredDifference<S>(w[i], c[i]);
  }
}

template <typename S, typename A = Accumulator<S>>
__global__ void Correct(const A* __restrict__ z, A alpha, int64_t n,
                        S* __restrict__ w) {
  for (int64_t i = FirstElement(); i < n; i += Stride()) {
    w[i] = StoredCorrected<S>(w[i], z[i], alpha);
  }
}

template <typename S, typename A = Accumulator<S>>
__global__ void Reset(const A* __restrict__ z, int64_t n, S* __restrict__ w) {
  for (int64_t i = FirstElement(); i < n; i += Stride()) w[i] = ToStorage<S>(z[i]);
}

int Grid(int64_t n) {
  return static_cast<int>(std::min(kMaxGrid, (n + kThreads - 1) / kThreads));
}

}  // namespace

CudaError LaunchSmaPass(SmaPass pass, ElementType type, const SmaTable& table,
                        const SmaArguments& arguments, int first, int count,
                        void* stream) {
  if (count == 0) return "";
  WithStorageType(type, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    WithPass(pass, [&](auto constant) {
      SmaKernel<decltype(constant)::value, S>
          <<<count, kThreads, 0, CudaStreamOf(stream)>>>(table, arguments, first);
    });
  });
  return CudaText("an averaging kernel", cudaGetLastError());
}

CudaError LaunchRemember(ElementType type, const void* w, const void* z, double alpha,
                         int64_t n, void* c, void* stream) {
  if (n == 0) return "";
  WithStorageType(type, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    Remember<S><<<Grid(n), kThreads, 0, CudaStreamOf(stream)>>>(
        static_cast<const S*>(w), static_cast<const A*>(z), static_cast<A>(alpha), n,
        static_cast<A*>(c));
  });
  return CudaText("a correcting kernel", cudaGetLastError());
}

CudaError LaunchSubtract(ElementType type, const void* c, int64_t n, void* w,
                         void* stream) {
  if (n == 0) return "";
  WithStorageType(type, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    Subtract<S><<<Grid(n), kThreads, 0, CudaStreamOf(stream)>>>(
        static_cast<const Accumulator<S>*>(c), n, static_cast<S*>(w));
  });
  return CudaText("a correcting kernel", cudaGetLastError());
}

CudaError LaunchCorrect(ElementType type, const void* z, double alpha, int64_t n,
                        void* w, void* stream) {
  if (n == 0) return "";
  WithStorageType(type, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    Correct<S><<<Grid(n), kThreads, 0, CudaStreamOf(stream)>>>(
        static_cast<const A*>(z), static_cast<A>(alpha), n, static_cast<S*>(w));
  });
  return CudaText("a correcting kernel", cudaGetLastError());
}

CudaError LaunchReset(ElementType type, const void* z, int64_t n, void* w,
                      void* stream) {
  if (n == 0) return "";
  WithStorageType(type, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    Reset<S><<<Grid(n), kThreads, 0, CudaStreamOf(stream)>>>(
        static_cast<const Accumulator<S>*>(z), n, static_cast<S*>(w));
  });
  return CudaText("a resetting kernel", cudaGetLastError());
}

}  // namespace tensorbow
