// Reduction on the host, for GPUs that NCCL cannot connect: copies to the host, a sum
// in the order of the GPUs, copies back. All of it is enqueued in chunks. A thread of
// the driver adds up one chunk. Meanwhile the next is copied to the host, and the
// previous one to the GPUs.
#ifndef TENSORBOW_CC_REDUCER_HOST_REDUCER_H_
#define TENSORBOW_CC_REDUCER_HOST_REDUCER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/device/gpu/cuda_event.h"
#include "cc/device/gpu/cuda_memory.h"
#include "cc/device/gpu/cuda_stream.h"
#include "cc/reducer/reducer.h"

namespace tensorbow {

// sum ← Σ_g values[g], g in order; `sum` overlaps none of them. REQUIRES: count >= 1.
template <typename T>
void SumInOrder(const T* const* values, int count, int64_t n, T* sum);

class HostReducer : public Reducer {
 public:
  static constexpr int64_t kChunkBytes = 4 << 20;

  explicit HostReducer(std::vector<int> ordinals);

  std::string Sum(ElementType type, int64_t n, const std::vector<void*>& buffers,
                  const std::vector<void*>& streams) override;

 private:
  int num_gpus() const { return static_cast<int>(ordinals_.size()); }
  // Enlarges the buffers to `size_bytes`; waits for enqueued work first.
  CudaError Grow(size_t size_bytes, const std::vector<void*>& streams);
  CudaError AddUp(ElementType type, int64_t begin, int64_t count);

  const std::vector<int> ordinals_;
  std::vector<CudaBuffer> values_;  // by GPU, on the host
  CudaBuffer sum_;                  // on the host; rewritten when all have copied it
  CudaStream adding_;               // of the first GPU; null before the first sum
  std::vector<CudaEvent> copied_;   // by GPU
  std::vector<CudaEvent> added_;    // by chunk
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REDUCER_HOST_REDUCER_H_
