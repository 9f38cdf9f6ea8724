// Kernels for updates with the correction in the same pass, on a stream of the current
// GPU; see update_rules.h, here and above. All pointers, also to scalars, are device
// memory; arrays hold n elements and do not overlap.
#ifndef TENSORBOW_CC_ARITHMETIC_GPU_UPDATE_KERNELS_H_
#define TENSORBOW_CC_ARITHMETIC_GPU_UPDATE_KERNELS_H_

#include <cstdint>

#include "cc/arithmetic/gpu/update_rules.h"
#include "cc/arithmetic/update_rules.h"
#include "cc/device/gpu/cuda_error.h"

namespace tensorbow {
namespace gpu {

// Enqueues the kernel. Defined for all rules of gpu/update_rules.h, T float or double.
template <typename Rule, typename T>
CudaError LaunchUpdate(const Rule& rule, int64_t n, const T* g, Pull<T> pull, T* w,
                       void* stream);
template <typename Rule, typename T>
CudaError LaunchUpdate(const Rule& rule, int64_t n, const T* g, Pull<T> pull, T* w,
                       T* slot, void* stream);
template <typename Rule, typename T>
CudaError LaunchUpdate(const Rule& rule, int64_t n, const T* g, Pull<T> pull, T* w,
                       T* slot0, T* slot1, void* stream);

}  // namespace gpu
}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_GPU_UPDATE_KERNELS_H_
