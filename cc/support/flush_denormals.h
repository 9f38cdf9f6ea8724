// Treats denormal numbers as zero while an object lives, on the thread that made it.
// TensorFlow's own threads do the same. Otherwise the slots of dead units become
// denormal after some hundred steps, and arithmetic on them is ten times slower. The
// destructor restores the former mode of the thread.
#ifndef TENSORBOW_CC_SUPPORT_FLUSH_DENORMALS_H_
#define TENSORBOW_CC_SUPPORT_FLUSH_DENORMALS_H_

#include <cstdint>

#if defined(__x86_64__)
#include <pmmintrin.h>
#include <xmmintrin.h>
#endif

namespace tensorbow {

class ScopedFlushDenormals {
 public:
  ScopedFlushDenormals(const ScopedFlushDenormals&) = delete;
  ScopedFlushDenormals& operator=(const ScopedFlushDenormals&) = delete;

#if defined(__x86_64__)
  ScopedFlushDenormals() : former_(_mm_getcsr()) {
    _mm_setcsr(former_ | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
  }
  ~ScopedFlushDenormals() { _mm_setcsr(former_); }

 private:
  const unsigned int former_;
#elif defined(__aarch64__)
  ScopedFlushDenormals() {
    constexpr uint64_t kFlushToZero = uint64_t{1} << 24;
    asm volatile("mrs %0, fpcr" : "=r"(former_));
    asm volatile("msr fpcr, %0" : : "r"(former_ | kFlushToZero));
  }
  ~ScopedFlushDenormals() { asm volatile("msr fpcr, %0" : : "r"(former_)); }

 private:
  uint64_t former_ = 0;
#else
  ScopedFlushDenormals() {}
  ~ScopedFlushDenormals() {}
#endif
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SUPPORT_FLUSH_DENORMALS_H_
