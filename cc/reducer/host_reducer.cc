#include "cc/reducer/host_reducer.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace tensorbow {

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
    : ordinals_(std::move(ordinals)),
      values_(ordinals_.size()),
      copied_(ordinals_.size()) {}

CudaError HostReducer::Grow(size_t size_bytes, const std::vector<void*>& streams) {
  CudaDeviceGuard guard(ordinals_[0]);
  if (adding_.get() == nullptr) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(adding_.Create(/*urgent=*/true));
  }
  if (sum_.size_bytes() >= size_bytes) return "";
  for (void* stream : streams) {
    TENSORBOW_RETURN_IF_CUDA_ERROR(SynchroniseStream(stream));
  }
  sum_ = CudaBuffer();
  TENSORBOW_RETURN_IF_CUDA_ERROR(sum_.AllocatePinned(size_bytes));
  for (CudaBuffer& values : values_) {
    values = CudaBuffer();
    TENSORBOW_RETURN_IF_CUDA_ERROR(values.AllocatePinned(size_bytes));
  }
  return "";
}

CudaError HostReducer::AddUp(ElementType type, int64_t begin, int64_t count) {
  return WithStorageType(type, [&](auto* storage) -> CudaError {
    using T = std::remove_pointer_t<decltype(storage)>;
    if constexpr (std::is_same_v<T, Accumulator<T>>) {
      std::vector<const T*> values;
      for (const CudaBuffer& buffer : values_) {
        values.push_back(buffer.as<T>() + begin);
      }
      return EnqueueHostFunction(
          [values = std::move(values), count, sum = sum_.as<T>() + begin] {
            SumInOrder(values.data(), static_cast<int>(values.size()), count, sum);
          },
          adding_.get());
    } else {
      return "sums are of accumulation types";
    }
  });
}

std::string HostReducer::Sum(ElementType type, int64_t n,
                             const std::vector<void*>& buffers,
                             const std::vector<void*>& streams) {
  const int64_t element = static_cast<int64_t>(ElementSizeBytes(type));
  TENSORBOW_RETURN_IF_CUDA_ERROR(Grow(n * element, streams));
  const int64_t chunk = kChunkBytes / element;
  const auto at = [element](void* buffer, int64_t begin) {
    return static_cast<char*>(buffer) + begin * element;
  };
  size_t num_chunks = 0;
  for (int64_t begin = 0; begin < n; begin += chunk, ++num_chunks) {
    const int64_t count = std::min(chunk, n - begin);
    for (int g = 0; g < num_gpus(); ++g) {
      CudaDeviceGuard guard(ordinals_[g]);
      TENSORBOW_RETURN_IF_CUDA_ERROR(
          CopyAsync(CudaCopy::kDeviceToHost, at(buffers[g], begin), count * element,
                    at(values_[g].data(), begin), streams[g]));
      TENSORBOW_RETURN_IF_CUDA_ERROR(copied_[g].Record(streams[g]));
      TENSORBOW_RETURN_IF_CUDA_ERROR(copied_[g].Wait(adding_.get()));
    }
    if (num_chunks == added_.size()) added_.emplace_back();
    CudaDeviceGuard guard(ordinals_[0]);
    TENSORBOW_RETURN_IF_CUDA_ERROR(AddUp(type, begin, count));
    TENSORBOW_RETURN_IF_CUDA_ERROR(added_[num_chunks].Record(adding_.get()));
  }
  for (int g = 0; g < num_gpus(); ++g) {
    CudaDeviceGuard guard(ordinals_[g]);
    for (size_t c = 0; c < num_chunks; ++c) {
      const int64_t begin = static_cast<int64_t>(c) * chunk;
      TENSORBOW_RETURN_IF_CUDA_ERROR(added_[c].Wait(streams[g]));
      TENSORBOW_RETURN_IF_CUDA_ERROR(CopyAsync(
          CudaCopy::kHostToDevice, at(sum_.data(), begin),
          std::min(chunk, n - begin) * element, at(buffers[g], begin), streams[g]));
    }
  }
  return "";
}

}  // namespace tensorbow
