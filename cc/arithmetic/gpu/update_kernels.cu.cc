#include "cc/arithmetic/gpu/update_kernels.h"

#include <algorithm>

#include "cc/arithmetic/correction.h"
#include "cc/device/gpu/cuda_call.h"

namespace tensorbow {
namespace gpu {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxGrid = 2048;  // enough to fill any GPU
constexpr int kPackBytes = 16;      // bytes that a thread loads at a time

template <typename T>
struct alignas(kPackBytes) Pack {
  static constexpr int kWidth = kPackBytes / sizeof(T);
  T values[kWidth];
};

template <typename T>
__device__ Pack<T>& PackAt(T* p) {
  return *reinterpret_cast<Pack<T>*>(p);
}
template <typename T>
__device__ const Pack<T>& PackAt(const T* p) {
  return *reinterpret_cast<const Pack<T>*>(p);
}

// Updates element i or, in `wide` threads, the pack that starts there.
template <typename Step, typename T, typename... Slots>
__device__ void UpdateOne(const Step& step, int64_t i, const T* __restrict__ g,
                          const T* __restrict__ z, T alpha, T* __restrict__ w,
                          Slots* __restrict__... slots) {
  const T before = w[i];
  const T after = step(before, g[i], slots[i]...);
  w[i] = z == nullptr ? after : Corrected(after, before, z[i], alpha);
}

template <typename Step, typename T, typename... Slots>
__device__ void UpdatePack(const Step& step, int64_t i, const T* __restrict__ g,
                           const T* __restrict__ z, T alpha, T* __restrict__ w,
                           Slots* __restrict__... slots) {
  // Loads everything before it computes.
  const auto update = [&](const Pack<T>& gradient, const Pack<T>& target,
                          Pack<T> weight, auto... slot) {
    for (int k = 0; k < Pack<T>::kWidth; ++k) {
      const T before = weight.values[k];
      const T after = step(before, gradient.values[k], slot.values[k]...);
      weight.values[k] =
          z == nullptr ? after : Corrected(after, before, target.values[k], alpha);
    }
    PackAt(w + i) = weight;
    ((PackAt(slots + i) = slot), ...);
  };
  const Pack<T> gradient = PackAt(g + i);
  const Pack<T> target = z == nullptr ? gradient : PackAt(z + i);
  update(gradient, target, PackAt(w + i), PackAt(slots + i)...);
}

template <typename Rule, typename T, typename... Slots>
__global__ void __launch_bounds__(kThreads)
    Update(Rule rule, int64_t n, int64_t packs, const T* __restrict__ g,
           const T* __restrict__ z, T alpha, T* __restrict__ w,
           Slots* __restrict__... slots) {
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  const auto step = rule.Load();
  for (int64_t p = first; p < packs; p += stride) {
    UpdatePack(step, p * Pack<T>::kWidth, g, z, alpha, w, slots...);
  }
  for (int64_t i = packs * Pack<T>::kWidth + first; i < n; i += stride) {
    UpdateOne(step, i, g, z, alpha, w, slots...);
  }
}

template <typename... T>
bool Aligned(const T*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % kPackBytes == 0) && ...);
}

template <typename Rule, typename T, typename... Slots>
CudaError Launch(const Rule& rule, int64_t n, const T* g, Pull<T> pull, T* w,
                 void* stream, Slots*... slots) {
  if (n == 0) return "";
  const int64_t packs = Aligned(g, pull.z, w, slots...) ? n / Pack<T>::kWidth : 0;
  const int64_t work = packs > 0 ? packs : n;
  const int64_t grid = std::min(kMaxGrid, (work + kThreads - 1) / kThreads);
  Update<Rule, T, Slots...>
      <<<static_cast<int>(grid), kThreads, 0, CudaStreamOf(stream)>>>(
          rule, n, packs, g, pull.z, pull.alpha, w, slots...);
  return CudaText("an update kernel", cudaGetLastError());
}

}  // namespace

template <typename Rule, typename T>
CudaError LaunchUpdate(const Rule& rule, int64_t n, const T* g, Pull<T> pull, T* w,
                       void* stream) {
  return Launch(rule, n, g, pull, w, stream);
}
template <typename Rule, typename T>
CudaError LaunchUpdate(const Rule& rule, int64_t n, const T* g, Pull<T> pull, T* w,
                       T* slot, void* stream) {
  return Launch(rule, n, g, pull, w, stream, slot);
}
template <typename Rule, typename T>
CudaError LaunchUpdate(const Rule& rule, int64_t n, const T* g, Pull<T> pull, T* w,
                       T* slot0, T* slot1, void* stream) {
  return Launch(rule, n, g, pull, w, stream, slot0, slot1);
}

// The parameter types of num_slots slots.
#define TENSORBOW_SLOTS_0(T)
#define TENSORBOW_SLOTS_1(T) T*,
#define TENSORBOW_SLOTS_2(T) T*, T*,
#define TENSORBOW_LAUNCH(T, slots, ...)                                               \
  template CudaError LaunchUpdate(const __VA_ARGS__&, int64_t, const T*, Pull<T>, T*, \
                                  slots(T) void*);
#define TENSORBOW_RULE(Name, num_slots)                             \
  TENSORBOW_LAUNCH(float, TENSORBOW_SLOTS_##num_slots, Name<float>) \
  TENSORBOW_LAUNCH(double, TENSORBOW_SLOTS_##num_slots, Name<double>)
#define TENSORBOW_ASSIGNMENT(assignment)                                \
  TENSORBOW_LAUNCH(float, TENSORBOW_SLOTS_0, Assign<float, assignment>) \
  TENSORBOW_LAUNCH(double, TENSORBOW_SLOTS_0, Assign<double, assignment>)
TENSORBOW_UPDATE_STEPS(TENSORBOW_RULE)
TENSORBOW_ASSIGNMENT(Assignment::kReplace)
TENSORBOW_ASSIGNMENT(Assignment::kAdd)
TENSORBOW_ASSIGNMENT(Assignment::kSubtract)

}  // namespace gpu
}  // namespace tensorbow
