#include "cc/memory/memory_share.h"

#include <utility>

namespace tensorbow {
namespace {

class SharedRegions : public tsl::SubAllocator {
 public:
  SharedRegions(std::shared_ptr<MemoryShare> share,
                std::unique_ptr<tsl::SubAllocator> regions)
      : SubAllocator({}, {}), share_(std::move(share)), regions_(std::move(regions)) {}

  void* Alloc(size_t alignment, size_t size_bytes, size_t* received) override {
    // Reports no more than the requested size, which Free() then returns to the share.
    if (!share_->Take(static_cast<int64_t>(size_bytes))) return nullptr;
    void* const region = regions_->Alloc(alignment, size_bytes, received);
    if (region == nullptr) {
      share_->Return(static_cast<int64_t>(size_bytes));
    } else if (*received > size_bytes) {
      *received = size_bytes;
    }
    return region;
  }
  void Free(void* region, size_t size_bytes) override {
    regions_->Free(region, size_bytes);
    share_->Return(static_cast<int64_t>(size_bytes));
  }
  bool SupportsCoalescing() const override { return false; }
  tsl::AllocatorMemoryType GetMemoryType() const override {
    return regions_->GetMemoryType();
  }

 private:
  const std::shared_ptr<MemoryShare> share_;
  const std::unique_ptr<tsl::SubAllocator> regions_;
};

}  // namespace

bool MemoryShare::Take(int64_t bytes) {
  int64_t taken = taken_bytes_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_bytes_ - taken) return false;
  } while (!taken_bytes_.compare_exchange_weak(taken, taken + bytes,
                                               std::memory_order_relaxed));
  return true;
}

std::unique_ptr<tsl::SubAllocator> RegionsWithin(
    std::shared_ptr<MemoryShare> share, std::unique_ptr<tsl::SubAllocator> regions) {
  return std::make_unique<SharedRegions>(std::move(share), std::move(regions));
}

}  // namespace tensorbow
