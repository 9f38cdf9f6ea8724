#ifndef TENSORBOW_CC_SYNCHRONISER_GPU_NEW_GPU_SMA_H_
#define TENSORBOW_CC_SYNCHRONISER_GPU_NEW_GPU_SMA_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "cc/central_model/central_model.h"
#include "cc/synchroniser/gpu/gpu_sma.h"
#include "cc/synchroniser/synchroniser.h"

namespace tensorbow {

// A GpuSma that reduces by NCCL, or on the host where NCCL cannot; then it logs why.
// Ask its error() whether it can be used. The average is kept if `central` keeps one.
std::unique_ptr<Synchroniser> NewGpuSma(std::vector<GpuLearner> learners,
                                        CentralModel* central,
                                        std::chrono::microseconds spin, double alpha,
                                        int64_t period);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_GPU_NEW_GPU_SMA_H_
