#include "cc/memory/learner_allocator.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "cc/support/host_memory.h"
#include "tensorflow/core/common_runtime/bfc_allocator.h"

namespace tensorbow {
namespace {

using tensorflow::Allocator;

class AlignedRegions : public tsl::SubAllocator {
 public:
  AlignedRegions() : SubAllocator({}, {}) {}

  void* Alloc(size_t alignment, size_t size_bytes, size_t* received) override {
    alignment = std::max<size_t>(alignment, Allocator::kAllocatorAlignment);
    *received = (size_bytes + alignment - 1) / alignment * alignment;
    return AllocateHostMemory(alignment, *received);
  }
  void Free(void* region, size_t) override { std::free(region); }
  bool SupportsCoalescing() const override { return false; }
  tsl::AllocatorMemoryType GetMemoryType() const override {
    return tsl::AllocatorMemoryType::kHostPageable;
  }
};

}  // namespace

std::unique_ptr<tsl::SubAllocator> HostRegions() {
  return std::make_unique<AlignedRegions>();
}

LearnerAllocator::Owner LearnerAllocator::New(const std::string& name,
                                              int64_t limit_bytes) {
  return New(name, limit_bytes, HostRegions(), /*returns_unused=*/true);
}

LearnerAllocator::Owner LearnerAllocator::New(
    const std::string& name, int64_t limit_bytes,
    std::unique_ptr<tsl::SubAllocator> regions, bool returns_unused) {
  tensorflow::BFCAllocator::Options options;
  options.allow_growth = true;
  options.allow_retry_on_failure = false;
  options.garbage_collection = returns_unused;
  return Owner(new LearnerAllocator(std::make_unique<tensorflow::BFCAllocator>(
      std::move(regions), limit_bytes, name, options)));
}

LearnerAllocator::LearnerAllocator(std::unique_ptr<Allocator> blocks)
    : blocks_(std::move(blocks)) {}

LearnerAllocator::~LearnerAllocator() = default;

void* LearnerAllocator::Counted(void* block) {
  if (block != nullptr) references_.fetch_add(1, std::memory_order_relaxed);
  return block;
}

void LearnerAllocator::Unref() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void* LearnerAllocator::AllocateRaw(size_t alignment, size_t size_bytes) {
  return Counted(blocks_->AllocateRaw(alignment, size_bytes));
}

void* LearnerAllocator::AllocateRaw(
    size_t alignment, size_t size_bytes,
    const tensorflow::AllocationAttributes& attributes) {
  return Counted(blocks_->AllocateRaw(alignment, size_bytes, attributes));
}

void LearnerAllocator::DeallocateRaw(void* block) {
  blocks_->DeallocateRaw(block);
  if (block != nullptr) Unref();
}

size_t LearnerAllocator::RequestedSize(const void* block) const {
  return blocks_->RequestedSize(block);
}
size_t LearnerAllocator::AllocatedSize(const void* block) const {
  return blocks_->AllocatedSize(block);
}
int64_t LearnerAllocator::AllocationId(const void* block) const {
  return blocks_->AllocationId(block);
}
std::optional<tensorflow::AllocatorStats> LearnerAllocator::GetStats() {
  return blocks_->GetStats();
}
bool LearnerAllocator::ClearStats() { return blocks_->ClearStats(); }
tensorflow::AllocatorMemoryType LearnerAllocator::GetMemoryType() const {
  return blocks_->GetMemoryType();
}

int64_t PhysicalMemoryBytes() {
  return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
}

}  // namespace tensorbow
