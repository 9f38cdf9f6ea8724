// The part of a device's memory that one learner may take, counted over all of its
// allocators: its own and those of its recordings.
//
// Invariant: the regions that the allocators hold never exceed the share in total.
// Thread-safe. Owned by the suppliers of the regions together.
#ifndef TENSORBOW_CC_MEMORY_MEMORY_SHARE_H_
#define TENSORBOW_CC_MEMORY_MEMORY_SHARE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "tensorflow/core/framework/allocator.h"

namespace tensorbow {

class MemoryShare {
 public:
  explicit MemoryShare(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  int64_t limit_bytes() const { return limit_bytes_; }
  int64_t taken_bytes() const { return taken_bytes_.load(std::memory_order_relaxed); }
  // Takes the bytes; returns false and takes nothing if fewer are left.
  bool Take(int64_t bytes);
  void Return(int64_t bytes) {
    taken_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }

 private:
  const int64_t limit_bytes_;
  std::atomic<int64_t> taken_bytes_{0};
};

// Supplies an allocator with the regions of `regions`, within the share.
std::unique_ptr<tsl::SubAllocator> RegionsWithin(
    std::shared_ptr<MemoryShare> share, std::unique_ptr<tsl::SubAllocator> regions);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_MEMORY_MEMORY_SHARE_H_
