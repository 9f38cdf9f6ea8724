// Zero-filled memory of fixed size, aligned to a cache line (and in huge pages when it
// is large). Move-only; owns its memory. Thread-compatible.
#ifndef TENSORBOW_CC_SUPPORT_ALIGNED_BUFFER_H_
#define TENSORBOW_CC_SUPPORT_ALIGNED_BUFFER_H_

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "cc/support/host_memory.h"

namespace tensorbow {

class AlignedBuffer {
 public:
  static constexpr size_t kCacheLineBytes = 64;

  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t size_bytes) : size_bytes_(size_bytes) {
    data_ = AllocateHostMemory(kCacheLineBytes, size_bytes + kCacheLineBytes);
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(data_, 0, size_bytes + kCacheLineBytes);
  }
  ~AlignedBuffer() { std::free(data_); }

  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_bytes_(std::exchange(other.size_bytes_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
  }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  void* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  void* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SUPPORT_ALIGNED_BUFFER_H_
