#include "cc/arithmetic/product.h"

#include <algorithm>
#include <cstring>

#include "cc/support/vectorise.h"

// In this file a multiply-add is rounded once, unlike in the updates.
#if defined(__clang__)
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

namespace tensorbow {
namespace {

constexpr int kBlock = 4;            // rows that are computed together
constexpr int kPanel = 64;           // columns that are computed together
constexpr int64_t kDepth = 256;      // k that are: a panel's part of b is 64 KiB
constexpr int64_t kGroupRows = 256;  // rows that use it one after the other

int64_t Panels(int64_t columns) { return (columns + kPanel - 1) / kPanel; }
int64_t Blocks(int64_t rows) { return (rows + kBlock - 1) / kBlock; }

// Loops over vectors are unrolled early, so that all sums live in registers.
#define TENSORBOW_UNROLL _Pragma("GCC unroll 8")

// c (kBlock × kPanel, its rows `stride` apart) ← a·b, or c + a·b; a is depth × kBlock,
// b depth × kPanel. As many vectors of sums as the processor has registers for.
template <int kLanes, int kVectors>
TENSORBOW_INLINE void MultiplyBlock(const float* a, const float* b, int64_t depth,
                                    bool accumulate, float* c, int64_t stride) {
  typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
  for (int column = 0; column < kPanel; column += kLanes * kVectors) {
    Vector sum[kBlock][kVectors];
    TENSORBOW_UNROLL
    for (int i = 0; i < kBlock; ++i) {
      TENSORBOW_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        Vector before = {};
        const float* const from = c + i * stride + column + v * kLanes;
        if (accumulate) std::memcpy(&before, from, sizeof before);
        sum[i][v] = before;
      }
    }
    for (int64_t k = 0; k < depth; ++k) {
      TENSORBOW_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        Vector factor;
        std::memcpy(&factor, b + k * kPanel + column + v * kLanes, sizeof factor);
        TENSORBOW_UNROLL
        for (int i = 0; i < kBlock; ++i) sum[i][v] += a[k * kBlock + i] * factor;
      }
    }
    TENSORBOW_UNROLL
    for (int i = 0; i < kBlock; ++i) {
      TENSORBOW_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const Vector after = sum[i][v];
        std::memcpy(c + i * stride + column + v * kLanes, &after, sizeof after);
      }
    }
  }
}

using BlockFunction = void (*)(const float* a, const float* b, int64_t depth,
                               bool accumulate, float* c, int64_t stride);
#define TENSORBOW_BLOCK_FUNCTION(name, lanes, vectors)                                \
  void name(const float* a, const float* b, int64_t depth, bool accumulate, float* c, \
            int64_t stride) {                                                         \
    MultiplyBlock<lanes, vectors>(a, b, depth, accumulate, c, stride);                \
  }

TENSORBOW_BLOCK_FUNCTION(Portable, 4, 2)
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2,fma"))) TENSORBOW_BLOCK_FUNCTION(Avx2, 8, 2)
    __attribute__((target("avx512f"))) TENSORBOW_BLOCK_FUNCTION(Avx512, 16, 4)

        BlockFunction ForThisProcessor() {
  if (__builtin_cpu_supports("avx512f")) return Avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Avx2;
  return Portable;
}
#else
BlockFunction ForThisProcessor() { return Portable; }
#endif

// The same for a block that lies partly outside c.
void MultiplyEdge(BlockFunction multiply, const float* a, const float* b, int64_t depth,
                  bool accumulate, float* c, int64_t stride, int64_t rows,
                  int64_t columns) {
  float whole[kBlock * kPanel] = {};
  for (int64_t i = 0; accumulate && i < rows; ++i) {
    std::copy_n(c + i * stride, columns, whole + i * kPanel);
  }
  multiply(a, b, depth, accumulate, whole, kPanel);
  for (int64_t i = 0; i < rows; ++i) {
    std::copy_n(whole + i * kPanel, columns, c + i * stride);
  }
}

}  // namespace

// For some rows of a: [blocks of rows][depth][kBlock], rows that do not exist are 0.
static_assert(Product::kScratchSize == kGroupRows * kDepth);

int64_t Product::WorkspaceSize(const Factors& factors) {
  return Panels(factors.columns) * factors.inner * kPanel;
}

Product::Product(const Factors& factors, float* workspace, float scale)
    : factors_(factors), b_(workspace) {
  float* packed = b_;
  for (int64_t column = 0; column < factors.columns; column += kPanel) {
    const int64_t size = std::min<int64_t>(kPanel, factors.columns - column);
    for (int64_t k = 0; k < factors.inner; ++k) {
      const float* const b = factors.b + k * factors.columns + column;
      for (int64_t i = 0; i < size; ++i) packed[i] = scale * b[i];
      std::fill(packed + size, packed + kPanel, 0.0f);
      packed += kPanel;
    }
  }
}

void Product::PackA(int64_t row, int64_t rows, int64_t k, int64_t depth,
                    float* packed) const {
  const int64_t along_k = factors_.a_transposed ? factors_.rows : 1;
  const int64_t along_rows = factors_.a_transposed ? 1 : factors_.inner;
  const float* const a = factors_.a + row * along_rows + k * along_k;
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    for (int64_t d = 0; d < depth; ++d) {
      for (int64_t i = 0; i < kBlock; ++i) {
        *packed++ = begin + i < rows ? a[(begin + i) * along_rows + d * along_k] : 0.0f;
      }
    }
  }
}

void Product::Multiply(const float* packed, int64_t rows, int64_t k, int64_t depth,
                       bool add, float* out) const {
  static const BlockFunction multiply = ForThisProcessor();
  const int64_t columns = factors_.columns;
  for (int64_t panel = 0; panel < Panels(columns); ++panel) {
    const float* const b = b_ + (panel * factors_.inner + k) * kPanel;
    const int64_t width = std::min<int64_t>(kPanel, columns - panel * kPanel);
    for (int64_t block = 0; block < Blocks(rows); ++block) {
      const float* const a = packed + block * kBlock * depth;
      const int64_t height = std::min<int64_t>(kBlock, rows - block * kBlock);
      float* const c = out + block * kBlock * columns + panel * kPanel;
      if (width == kPanel && height == kBlock) {
        multiply(a, b, depth, add, c, columns);
      } else {
        MultiplyEdge(multiply, a, b, depth, add, c, columns, height, width);
      }
    }
  }
}

void Product::Sum(int64_t begin, int64_t end, bool add, float* scratch,
                  float* out) const {
  for (int64_t row = begin; row < end; row += kGroupRows) {
    const int64_t rows = std::min(kGroupRows, end - row);
    float* const group = out + (row - begin) * factors_.columns;
    int64_t k = 0;
    do {  // once even if inner is 0: an empty sum is 0
      const int64_t depth = std::min(kDepth, factors_.inner - k);
      PackA(row, rows, k, depth, scratch);
      Multiply(scratch, rows, k, depth, add || k > 0, group);
      k += kDepth;
    } while (k < factors_.inner);
  }
}

}  // namespace tensorbow
