// The memory of one learner on the CPU or on an accelerator, from TensorFlow's
// best-fit-with-coalescing (BFC) allocator. Learners share neither the lock nor the
// fragmentation of an allocator.
//
// A tensor can outlive the learner or the recorded task that made it: a user keeps a
// fetched array, a py_func its argument, a variable the value it was assigned. So the
// allocator lives until its owner has released it and the last block has been returned.
// Only then is its memory returned to the system. Thread-safe.
#ifndef TENSORBOW_CC_MEMORY_LEARNER_ALLOCATOR_H_
#define TENSORBOW_CC_MEMORY_LEARNER_ALLOCATOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tensorflow/core/framework/allocator.h"

namespace tensorbow {

class LearnerAllocator : public tensorflow::Allocator {
 public:
  struct Releaser {
    void operator()(LearnerAllocator* allocator) const { allocator->Unref(); }
  };
  using Owner = std::unique_ptr<LearnerAllocator, Releaser>;

  // Makes an allocator of host memory that grows on demand to at most `limit_bytes`.
  static Owner New(const std::string& name, int64_t limit_bytes);
  // Makes one that takes its memory from `regions`. `returns_unused`: whether it may
  // return regions before it reaches the limit. It must not if freed addresses are used
  // again without a request, as recorded tasks do.
  static Owner New(const std::string& name, int64_t limit_bytes,
                   std::unique_ptr<tsl::SubAllocator> regions, bool returns_unused);

  std::string Name() override { return blocks_->Name(); }
  void* AllocateRaw(size_t alignment, size_t size_bytes) override;
  void* AllocateRaw(size_t alignment, size_t size_bytes,
                    const tensorflow::AllocationAttributes& attributes) override;
  void DeallocateRaw(void* block) override;
  bool TracksAllocationSizes() const override { return true; }
  size_t RequestedSize(const void* block) const override;
  size_t AllocatedSize(const void* block) const override;
  int64_t AllocationId(const void* block) const override;
  std::optional<tensorflow::AllocatorStats> GetStats() override;
  bool ClearStats() override;
  tensorflow::AllocatorMemoryType GetMemoryType() const override;

 private:
  explicit LearnerAllocator(std::unique_ptr<tensorflow::Allocator> blocks);
  ~LearnerAllocator() override;
  void* Counted(void* block);
  void Unref();

  const std::unique_ptr<tensorflow::Allocator> blocks_;
  std::atomic<int64_t> references_{1};  // one for the owner and one for each live block
};

// Supplies an allocator with regions of host memory.
std::unique_ptr<tsl::SubAllocator> HostRegions();

// Returns the bytes of physical memory of this machine.
int64_t PhysicalMemoryBytes();

}  // namespace tensorbow

#endif  // TENSORBOW_CC_MEMORY_LEARNER_ALLOCATOR_H_
