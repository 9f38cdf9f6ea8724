// The correction of correction.h over arrays, for updates that do not make it in their
// own pass. w is stored as S; z and c have the type of S's arithmetic. Arrays hold `n`
// elements and do not overlap. Pure functions.
#ifndef TENSORBOW_CC_ARITHMETIC_CORRECTION_PASSES_H_
#define TENSORBOW_CC_ARITHMETIC_CORRECTION_PASSES_H_

#include <cstdint>

#include "cc/arithmetic/correction.h"
#include "cc/support/element.h"
#include "cc/support/vectorise.h"

namespace tensorbow {

// c ← α (w − z), to be inlined into a vectorised function.
template <typename S, typename A = Accumulator<S>>
TENSORBOW_INLINE void CorrectionLoop(const S* __restrict w, const A* __restrict z,
                                     A alpha, int64_t n, A* __restrict c) {
  for (int64_t i = 0; i < n; ++i) {
    c[i] = CorrectionOf(static_cast<A>(w[i]), z[i], alpha);
  }
}

// c ← Σ_j α (w_j − z), j in order; w_j from element `begin`, z and c from 0. At least
// one replica. To be inlined, too.
template <typename S, typename A = Accumulator<S>>
TENSORBOW_INLINE void CorrectionSumLoop(const S* const* w, int count, int64_t begin,
                                        const A* __restrict z, A alpha, int64_t n,
                                        A* __restrict c) {
  CorrectionLoop<S>(w[0] + begin, z, alpha, n, c);
  for (int j = 1; j < count; ++j) {
    const S* __restrict wj = w[j] + begin;
    for (int64_t i = 0; i < n; ++i) {
      c[i] += CorrectionOf(static_cast<A>(wj[i]), z[i], alpha);
    }
  }
}

// c ← c − α (w − z), to be inlined, too.
template <typename S, typename A = Accumulator<S>>
TENSORBOW_INLINE void TakeOutLoop(const S* __restrict w, const A* __restrict z, A alpha,
                                  int64_t n, A* __restrict c) {
  for (int64_t i = 0; i < n; ++i) {
    c[i] -= CorrectionOf(static_cast<A>(w[i]), z[i], alpha);
  }
}

// c ← α (w − z)
template <typename S>
void Correction(const S* w, const Accumulator<S>* z, Accumulator<S> alpha, int64_t n,
                Accumulator<S>* c);
// w ← w − c
template <typename S>
void Subtract(const Accumulator<S>* c, int64_t n, S* w);
// w ← w − α (w − z)
template <typename S>
void Correct(const Accumulator<S>* z, Accumulator<S> alpha, int64_t n, S* w);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_CORRECTION_PASSES_H_
