#include "cc/arithmetic/correction_passes.h"

namespace tensorbow {
namespace {

template <typename S, typename A = Accumulator<S>>
TENSORBOW_INLINE void SubtractLoop(const A* __restrict c, int64_t n, S* __restrict w) {
  for (int64_t i = 0; i < n; ++i) w[i] = static_cast<S>(static_cast<A>(w[i]) - c[i]);
}

template <typename S, typename A = Accumulator<S>>
TENSORBOW_INLINE void CorrectLoop(const A* __restrict z, A alpha, int64_t n,
                                  S* __restrict w) {
  for (int64_t i = 0; i < n; ++i) {
    const A value = static_cast<A>(w[i]);
    w[i] = static_cast<S>(Corrected(value, value, z[i], alpha));
  }
}

}  // namespace

// A function for each type, since target_clones does not work on templates.
#define TENSORBOW_CORRECTION(S)                                                        \
  TENSORBOW_VECTORISED static void Correction_##S(const S* w, const Accumulator<S>* z, \
                                                  Accumulator<S> alpha, int64_t n,     \
                                                  Accumulator<S>* c) {                 \
    CorrectionLoop<S>(w, z, alpha, n, c);                                              \
  }                                                                                    \
  template <>                                                                          \
  void Correction<S>(const S* w, const Accumulator<S>* z, Accumulator<S> alpha,        \
                     int64_t n, Accumulator<S>* c) {                                   \
    Correction_##S(w, z, alpha, n, c);                                                 \
  }                                                                                    \
  TENSORBOW_VECTORISED static void Subtract_##S(const Accumulator<S>* c, int64_t n,    \
                                                S* w) {                                \
    SubtractLoop<S>(c, n, w);                                                          \
  }                                                                                    \
  template <>                                                                          \
  void Subtract<S>(const Accumulator<S>* c, int64_t n, S* w) {                         \
    Subtract_##S(c, n, w);                                                             \
  }                                                                                    \
  TENSORBOW_VECTORISED static void Correct_##S(                                        \
      const Accumulator<S>* z, Accumulator<S> alpha, int64_t n, S* w) {                \
    CorrectLoop<S>(z, alpha, n, w);                                                    \
  }                                                                                    \
  template <>                                                                          \
  void Correct<S>(const Accumulator<S>* z, Accumulator<S> alpha, int64_t n, S* w) {    \
    Correct_##S(z, alpha, n, w);                                                       \
  }
TENSORBOW_CORRECTION(float)
TENSORBOW_CORRECTION(double)
TENSORBOW_CORRECTION(Half)
TENSORBOW_CORRECTION(Bfloat16)

}  // namespace tensorbow
