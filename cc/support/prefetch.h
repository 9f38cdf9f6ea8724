// Fetches memory ahead that is about to be written.
#ifndef TENSORBOW_CC_SUPPORT_PREFETCH_H_
#define TENSORBOW_CC_SUPPORT_PREFETCH_H_

#include <cstdint>

namespace tensorbow {

// Asks the processor to fetch [begin, begin + size) for this core alone, and returns at
// once. A store to memory that another core has read costs as much as a miss of all
// caches. Few are in flight at a time. Requested together and early, they cost next to
// nothing. (Measured: S-SGD of three layers of 512 under Adam, 1.17 times as fast.)
inline void PrefetchForWriting(const void* begin, int64_t size) {
  constexpr int64_t kLineBytes = 64;
  const char* const bytes = static_cast<const char*>(begin);
  for (int64_t i = 0; i < size; i += kLineBytes) {
#if defined(__x86_64__) && defined(__GNUC__)
    // The builtin emits this only under a compiler flag. Older processors ignore the
    // instruction.
    asm volatile("prefetchw %0" : : "m"(bytes[i]));
#else
    __builtin_prefetch(bytes + i, /*write=*/1);
#endif
  }
}

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SUPPORT_PREFETCH_H_
