#include "cc/reducer/host_reducer.h"

#include <type_traits>
#include <utility>

#include "cc/device/gpu/cuda_stream.h"

namespace tensorbow {
namespace {

CudaError EnsureSize(size_t size_bytes, CudaBuffer* buffer) {
  if (buffer->size_bytes() >= size_bytes) return "";
  *buffer = CudaBuffer();
  return buffer->AllocatePinned(size_bytes);
}

}  // namespace

template <typename T>
void SumInOrder(const T* const* values, int count, int64_t n, T* sum) {
  for (int64_t i = 0; i < n; ++i) sum[i] = values[0][i];
  for (int g = 1; g < count; ++g) {
    for (int64_t i = 0; i < n; ++i) sum[i] += values[g][i];
  }
}
template void SumInOrder(const float* const*, int, int64_t, float*);
template void SumInOrder(const double* const*, int, int64_t, double*);

HostReducer::HostReducer(std::vector<int> ordinals)
    : ordinals_(std::move(ordinals)), values_(ordinals_.size()) {}

std::string HostReducer::Sum(ElementType type, int64_t n,
                             const std::vector<void*>& buffers,
                             const std::vector<void*>& streams) {
  const size_t size_bytes = n * ElementSizeBytes(type);
  const size_t num_gpus = ordinals_.size();
  // A GPU that still copies the last sum does so before what its stream does now.
  for (size_t g = 0; g < num_gpus; ++g) {
    CudaDeviceGuard guard(ordinals_[g]);
    TENSORBOW_RETURN_IF_CUDA_ERROR(EnsureSize(size_bytes, &values_[g]));
    TENSORBOW_RETURN_IF_CUDA_ERROR(CopyAsync(CudaCopy::kDeviceToHost, buffers[g],
                                             size_bytes, values_[g].data(),
                                             streams[g]));
  }
  for (void* stream : streams) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(SynchroniseStream(stream));
  }
  TENSORBOW_RETURN_IF_CUDA_ERROR(EnsureSize(size_bytes, &sum_));
  WithStorageType(type, [&](auto* storage) {
    using T = std::remove_pointer_t<decltype(storage)>;
    if constexpr (std::is_same_v<T, Accumulator<T>>) {
      std::vector<const T*> values;
      for (const CudaBuffer& buffer : values_) values.push_back(buffer.as<T>());
      SumInOrder(values.data(), static_cast<int>(num_gpus), n, sum_.as<T>());
    }
  });
  for (size_t g = 0; g < num_gpus; ++g) {
    CudaDeviceGuard guard(ordinals_[g]);
    TENSORBOW_RETURN_IF_CUDA_ERROR(CopyAsync(CudaCopy::kHostToDevice, sum_.data(),
                                             size_bytes, buffers[g], streams[g]));
  }
  return "";
}

}  // namespace tensorbow
