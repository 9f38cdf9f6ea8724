// Launches of SMA's kernels on a stream of the current GPU; see sma_elements.h.
#ifndef TENSORBOW_CC_SYNCHRONISER_GPU_SMA_KERNELS_H_
#define TENSORBOW_CC_SYNCHRONISER_GPU_SMA_KERNELS_H_

#include <cstdint>

#include "cc/device/gpu/cuda_error.h"
#include "cc/support/element.h"
#include "cc/synchroniser/gpu/sma_elements.h"

namespace tensorbow {

// Launches a pass over blocks [first, first + count) of the table, whose members are
// stored as `type`.
CudaError LaunchSmaPass(SmaPass pass, ElementType type, const SmaTable& table,
                        const SmaArguments& arguments, int first, int count,
                        void* stream);

// Launch the formula for one variable of n elements; `z`, `c`: accumulation type.
// c ← α (w − z)
CudaError LaunchRemember(ElementType type, const void* w, const void* z, double alpha,
                         int64_t n, void* c, void* stream);
// w ← w − c
CudaError LaunchSubtract(ElementType type, const void* c, int64_t n, void* w,
                         void* stream);
// w ← w − α (w − z)
CudaError LaunchCorrect(ElementType type, const void* z, double alpha, int64_t n,
                        void* w, void* stream);
// w ← z
CudaError LaunchReset(ElementType type, const void* z, int64_t n, void* w,
                      void* stream);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_GPU_SMA_KERNELS_H_
