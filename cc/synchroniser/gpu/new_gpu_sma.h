#ifndef TENSORBOW_CC_SYNCHRONISER_GPU_NEW_GPU_SMA_H_
#define TENSORBOW_CC_SYNCHRONISER_GPU_NEW_GPU_SMA_H_

#include <vector>

#include "cc/central_model/central_model.h"
#include "cc/synchroniser/algorithms/device_sma.h"
#include "cc/synchroniser/algorithms/sma.h"

namespace tensorbow {

// Makes a GpuSma that reduces by NCCL or, logging why NCCL cannot, on the host. It is a
// DeviceSmaFactory.
DeviceSma NewGpuSma(const SmaOptions& options, std::vector<LearnerStream> learners,
                    CentralModel* central);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_GPU_NEW_GPU_SMA_H_
