// Vectorised loops over many numbers. A function marked TENSORBOW_VECTORISED is
// compiled once for each instruction set and chosen when the library is loaded.
// Contraction to fused multiply-add is off (see the build files), so all versions give
// the same bits.
#ifndef TENSORBOW_CC_SUPPORT_VECTORISE_H_
#define TENSORBOW_CC_SUPPORT_VECTORISE_H_

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TENSORBOW_VECTORISED \
  __attribute__((flatten, target_clones("avx512f", "avx2", "default")))
#else
#define TENSORBOW_VECTORISED
#endif

// A callee of such a function: it must be inlined into each of the versions.
#define TENSORBOW_INLINE inline __attribute__((always_inline))

#endif  // TENSORBOW_CC_SUPPORT_VECTORISE_H_
