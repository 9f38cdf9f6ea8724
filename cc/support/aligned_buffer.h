// Zero-filled memory of fixed size, aligned to a cache line (and to a huge page
// when it is large). Move-only; owns its memory. Thread-compatible.
#ifndef TENSORBOW_CC_SUPPORT_ALIGNED_BUFFER_H_
#define TENSORBOW_CC_SUPPORT_ALIGNED_BUFFER_H_

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace tensorbow {

class AlignedBuffer {
 public:
  static constexpr size_t kCacheLineBytes = 64;
  static constexpr size_t kHugePageBytes = size_t{2} << 20;

  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t size_bytes) : size_bytes_(size_bytes) {
    const size_t alignment =
        size_bytes >= kHugePageBytes ? kHugePageBytes : kCacheLineBytes;
    const size_t rounded = (size_bytes / alignment + 1) * alignment;
    data_ = std::aligned_alloc(alignment, rounded);
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(data_, 0, rounded);
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
