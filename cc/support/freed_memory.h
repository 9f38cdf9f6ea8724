// Returns freed memory that the allocator still keeps to the system.
#ifndef TENSORBOW_CC_SUPPORT_FREED_MEMORY_H_
#define TENSORBOW_CC_SUPPORT_FREED_MEMORY_H_

#include <malloc.h>

#include <cstdint>

namespace tensorbow {

// Returns freed memory to the system if `freed_bytes` is worth the search. The
// allocator keeps up to 64 MiB for each thread that has allocated memory.
inline void ReturnFreedMemory(int64_t freed_bytes) {
  constexpr int64_t kWorthIt = 16 * 1024 * 1024;
  if (freed_bytes >= kWorthIt) malloc_trim(0);
}

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SUPPORT_FREED_MEMORY_H_
