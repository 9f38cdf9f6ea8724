// Reduction on the host, for GPUs that NCCL cannot connect: copies to the host, a sum
// in the order of the GPUs, copies back. Waits for the copies to the host.
#ifndef TENSORBOW_CC_REDUCER_HOST_REDUCER_H_
#define TENSORBOW_CC_REDUCER_HOST_REDUCER_H_

#include <string>
#include <vector>

#include "cc/device/gpu/cuda_memory.h"
#include "cc/reducer/reducer.h"

namespace tensorbow {

// sum ← Σ_g values[g], g in order; `sum` overlaps none of them. REQUIRES: count >= 1.
template <typename T>
void SumInOrder(const T* const* values, int count, int64_t n, T* sum);

class HostReducer : public Reducer {
 public:
  explicit HostReducer(std::vector<int> ordinals);

  std::string Sum(ElementType type, int64_t n, const std::vector<void*>& buffers,
                  const std::vector<void*>& streams) override;

 private:
  const std::vector<int> ordinals_;
  std::vector<CudaBuffer> values_;  // by GPU, on the host
  CudaBuffer sum_;                  // on the host; rewritten when all have copied it
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REDUCER_HOST_REDUCER_H_
