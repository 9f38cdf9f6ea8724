#include "cc/arithmetic/input_gradient.h"

#include <algorithm>
#include <cstring>

#include "cc/support/vectorise.h"

// Allows fused multiply-adds in this file, which round once; updates do not use them.
#if defined(__clang__)
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

namespace tensorbow {
namespace {

constexpr int kRows = 8;       // rows of w multiplied together
constexpr int kMaxWidth = 16;  // columns of bᵀ multiplied together

// Loops over vectors are unrolled early, so that all sums live in registers.
#define TENSORBOW_UNROLL _Pragma("GCC unroll 8")

// sums(i, k) ← Σ_j w(i, j)·b(j, k): some rows of w, and kLanes·kVectors columns of bᵀ,
// which lie one row after the other.
template <int kHeight, int kLanes, int kVectors>
TENSORBOW_INLINE void MultiplyRows(const float* const* w, const float* b,
                                   int64_t columns, float* sums) {
  typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
  Vector sum[kHeight][kVectors] = {};
  for (int64_t j = 0; j < columns; ++j) {
    TENSORBOW_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      Vector factor;
      std::memcpy(&factor, b + (j * kVectors + v) * kLanes, sizeof factor);
      TENSORBOW_UNROLL
      for (int i = 0; i < kHeight; ++i) sum[i][v] += w[i][j] * factor;
    }
  }
  TENSORBOW_UNROLL
  for (int i = 0; i < kHeight; ++i) {
    TENSORBOW_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const Vector after = sum[i][v];
      std::memcpy(sums + (i * kVectors + v) * kLanes, &after, sizeof after);
    }
  }
}

// The loops for one instruction set.
struct Loops {
  int max_width;
  void (*multiply[3])(const float* const* w, const float* b, int64_t columns,
                      float* sums);  // of widths 4, 8, 16
};

// A loop with as many rows at once as there are registers for their sums.
#define TENSORBOW_LOOP(name, target, lanes, vectors, height)                \
  target void name(const float* const* w, const float* b, int64_t columns,  \
                   float* sums) {                                           \
    for (int i = 0; i < kRows; i += height) {                               \
      MultiplyRows<height, lanes, vectors>(w + i, b, columns,               \
                                           sums + i * (lanes) * (vectors)); \
    }                                                                       \
  }

TENSORBOW_LOOP(Portable4, , 4, 1, 8)
constexpr Loops kPortable = {4, {Portable4}};
#if defined(__x86_64__) && defined(__GNUC__)
#define TENSORBOW_AVX2 __attribute__((target("avx2,fma")))
TENSORBOW_LOOP(Avx2Of4, TENSORBOW_AVX2, 4, 1, 8)
TENSORBOW_LOOP(Avx2Of8, TENSORBOW_AVX2, 8, 1, 8)
TENSORBOW_LOOP(Avx2Of16, TENSORBOW_AVX2, 8, 2, 4)
constexpr Loops kAvx2 = {16, {Avx2Of4, Avx2Of8, Avx2Of16}};
#define TENSORBOW_AVX512 __attribute__((target("avx512f,avx512vl,fma")))
TENSORBOW_LOOP(Avx512Of4, TENSORBOW_AVX512, 4, 1, 8)
TENSORBOW_LOOP(Avx512Of8, TENSORBOW_AVX512, 8, 1, 8)
TENSORBOW_LOOP(Avx512Of16, TENSORBOW_AVX512, 16, 1, 8)
constexpr Loops kAvx512 = {16, {Avx512Of4, Avx512Of8, Avx512Of16}};
#endif

const Loops& FindLoops() {
#if defined(__x86_64__) && defined(__GNUC__)
  const bool fma = __builtin_cpu_supports("fma");
  if (fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) {
    return kAvx512;
  }
  if (fma && __builtin_cpu_supports("avx2")) return kAvx2;
#endif
  return kPortable;
}

const Loops& ForThisProcessor() {
  static const Loops& loops = FindLoops();
  return loops;
}

// Returns the processor's loop to use next when `left` columns of bᵀ are left.
int NextLoop(int64_t left) {
  int loop = 0;
  while ((4 << loop) < left && (4 << loop) < ForThisProcessor().max_width) ++loop;
  return loop;
}

}  // namespace

int64_t InputGradient::WorkspaceSize(const Shape& shape) {
  return (shape.batch + kMaxWidth + kRows) * shape.columns;
}

InputGradient::InputGradient(const Shape& shape, const float* b, float* workspace)
    : shape_(shape),
      padded_(workspace),
      transposed_(workspace + kRows * shape.columns) {
  float* to = transposed_;
  for (int64_t k = 0; k < shape.batch;) {
    const int width = 4 << NextLoop(shape.batch - k);
    for (int64_t j = 0; j < shape.columns; ++j) {
      for (int64_t u = k; u < k + width; ++u) {
        *to++ = u < shape.batch ? b[u * shape.columns + j] : 0.0f;
      }
    }
    k += width;
  }
}

void InputGradient::Add(int64_t begin, int64_t end, const float* w, float* d) const {
  if (begin == end) return;
  const int64_t columns = shape_.columns;
  const int64_t first = begin / columns, last = (end + columns - 1) / columns;
  for (int64_t row = first; row < last; row += kRows) {
    const int64_t height = std::min<int64_t>(kRows, last - row);
    const float* rows[kRows];
    for (int64_t i = 0; i < kRows; ++i) {
      const int64_t start = (row + std::min(i, height - 1)) * columns;
      rows[i] = w + (start - begin);
      const int64_t from = std::max(begin, start), to = std::min(end, start + columns);
      if (to - from == columns) continue;
      float* const padded = padded_ + i * columns;
      std::fill_n(padded, columns, 0.0f);
      std::copy_n(w + (from - begin), to - from, padded + (from - start));
      rows[i] = padded;
    }
    const float* b = transposed_;
    for (int64_t k = 0; k < shape_.batch;) {
      const int loop = NextLoop(shape_.batch - k), width = 4 << loop;
      float sums[kRows * kMaxWidth];
      ForThisProcessor().multiply[loop](rows, b, columns, sums);
      for (int64_t u = 0; u < std::min<int64_t>(width, shape_.batch - k); ++u) {
        float* const to = d + (k + u) * shape_.rows + row;
        for (int64_t i = 0; i < height; ++i) to[i] += sums[i * width + u];
      }
      b += width * columns;
      k += width;
    }
  }
}

}  // namespace tensorbow
