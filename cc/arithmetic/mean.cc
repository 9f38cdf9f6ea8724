#include "cc/arithmetic/mean.h"

#include "cc/support/vectorise.h"

namespace tensorbow {
namespace {

template <typename S, typename A = Accumulator<S>>
TENSORBOW_INLINE void Average(const S* const* values, int count, int64_t n, S* mean) {
  const A scale = A(1) / static_cast<A>(count);
  for (int64_t i = 0; i < n; ++i) {
    A sum = static_cast<A>(values[0][i]);
    for (int j = 1; j < count; ++j) sum += static_cast<A>(values[j][i]);
    mean[i] = static_cast<S>(sum * scale);
  }
}

template <typename S, typename A = Accumulator<S>>
TENSORBOW_INLINE void Average(const S* const* values, const double* shares, int count,
                              int64_t n, S* mean) {
  const A scale = A(1) / static_cast<A>(count);
  for (int64_t i = 0; i < n; ++i) {
    A sum(0);
    for (int j = 0; j < count; ++j) {
      sum += static_cast<A>(shares[j]) * static_cast<A>(values[j][i]);
    }
    mean[i] = static_cast<S>(sum * scale);
  }
}

// Unrolls the inner loop for the common counts.
template <typename S>
TENSORBOW_INLINE void AverageOf(const S* const* values, int count, int64_t n, S* mean) {
  switch (count) {
    case 2:
      return Average<S>(values, 2, n, mean);
    case 3:
      return Average<S>(values, 3, n, mean);
    case 4:
      return Average<S>(values, 4, n, mean);
    default:
      return Average<S>(values, count, n, mean);
  }
}

}  // namespace

TENSORBOW_VECTORISED void Mean(const float* const* values, int count, int64_t n,
                               float* mean) {
  AverageOf<float>(values, count, n, mean);
}
TENSORBOW_VECTORISED void Mean(const double* const* values, int count, int64_t n,
                               double* mean) {
  AverageOf<double>(values, count, n, mean);
}
TENSORBOW_VECTORISED void Mean(const Half* const* values, int count, int64_t n,
                               Half* mean) {
  AverageOf<Half>(values, count, n, mean);
}
TENSORBOW_VECTORISED void Mean(const Bfloat16* const* values, int count, int64_t n,
                               Bfloat16* mean) {
  AverageOf<Bfloat16>(values, count, n, mean);
}

TENSORBOW_VECTORISED void Mean(const float* const* values, const double* shares,
                               int count, int64_t n, float* mean) {
  Average<float>(values, shares, count, n, mean);
}
TENSORBOW_VECTORISED void Mean(const double* const* values, const double* shares,
                               int count, int64_t n, double* mean) {
  Average<double>(values, shares, count, n, mean);
}
TENSORBOW_VECTORISED void Mean(const Half* const* values, const double* shares,
                               int count, int64_t n, Half* mean) {
  Average<Half>(values, shares, count, n, mean);
}
TENSORBOW_VECTORISED void Mean(const Bfloat16* const* values, const double* shares,
                               int count, int64_t n, Bfloat16* mean) {
  Average<Bfloat16>(values, shares, count, n, mean);
}

}  // namespace tensorbow
