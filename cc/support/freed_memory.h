// Memory that has been freed and that the allocator still keeps.
#ifndef TENSORBOW_CC_SUPPORT_FREED_MEMORY_H_
#define TENSORBOW_CC_SUPPORT_FREED_MEMORY_H_

#include <malloc.h>

#include <cstdint>

namespace tensorbow {

// Gives it back to the system, if what has been freed is worth looking for: the
// allocator keeps up to 64 MiB for each thread that has allocated some.
inline void ReturnFreedMemory(int64_t freed_bytes) {
  constexpr int64_t kWorthIt = 16 * 1024 * 1024;
  if (freed_bytes >= kWorthIt) malloc_trim(0);
}

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SUPPORT_FREED_MEMORY_H_
