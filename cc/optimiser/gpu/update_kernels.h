// Enqueue updates with the correction in the same pass on a stream of the current GPU;
// see update_rules.h and update_elements.h. All pointers, scalars' too, are device
// memory; arrays hold n elements and do not overlap.
#ifndef TENSORBOW_CC_OPTIMISER_GPU_UPDATE_KERNELS_H_
#define TENSORBOW_CC_OPTIMISER_GPU_UPDATE_KERNELS_H_

#include <cstdint>

#include "cc/device/gpu/cuda_error.h"
#include "cc/optimiser/gpu/update_elements.h"
#include "cc/optimiser/update_rules.h"

namespace tensorbow {
namespace gpu {

// Defined for all rules of update_elements.h, T float or double.
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

#endif  // TENSORBOW_CC_OPTIMISER_GPU_UPDATE_KERNELS_H_
