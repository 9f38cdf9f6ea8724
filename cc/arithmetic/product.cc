#include "cc/arithmetic/product.h"

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

constexpr int kBlock = 4;            // rows computed together
constexpr int kPanel = 64;           // columns computed together
constexpr int64_t kDepth = 256;      // k computed together: 64 KiB of b in a panel
constexpr int64_t kGroupRows = 256;  // rows that use this part one after the other

int64_t Panels(int64_t columns) { return (columns + kPanel - 1) / kPanel; }
int64_t Blocks(int64_t rows) { return (rows + kBlock - 1) / kBlock; }

// Loops over vectors are unrolled early, so that all sums live in registers.
#define TENSORBOW_UNROLL _Pragma("GCC unroll 8")

// Some rows of b in one panel, one after the other.
struct PanelRows {
  const float* b;
  int64_t depth;
};

// c (kBlock × `width`, its rows `stride` apart) ← Σ a·b, or c + Σ a·b, over all
// `parts`; those of a lie one after the other, each depth × kBlock. Writes whole
// vectors, also beyond `width`.
template <int kLanes, int kVectors>
TENSORBOW_INLINE void MultiplyBlock(const float* a, const std::vector<PanelRows>& parts,
                                    bool accumulate, int64_t width, float* c,
                                    int64_t stride) {
  const PanelRows* const first = parts.data();
  const PanelRows* const end = first + parts.size();
  typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
  for (int64_t column = 0; column < width; column += kLanes * kVectors) {
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
    const float* of_part = a;
    const PanelRows* part = first;
    do {  // there is at least one; a `for` makes short sums 3 % slower
      const auto [b, depth] = *part;
      for (int64_t k = 0; k < depth; ++k) {
        TENSORBOW_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          Vector factor;
          std::memcpy(&factor, b + k * kPanel + column + v * kLanes, sizeof factor);
          TENSORBOW_UNROLL
          for (int i = 0; i < kBlock; ++i) {
            sum[i][v] += of_part[k * kBlock + i] * factor;
          }
        }
      }
      of_part += depth * kBlock;
    } while (++part != end);
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

using BlockFunction = void (*)(const float* a, const std::vector<PanelRows>& parts,
                               bool accumulate, int64_t width, float* c,
                               int64_t stride);

// The loops for one instruction set: for whole panels, with as many vectors of sums as
// there are registers, and for narrower panels.
struct Loops {
  BlockFunction whole, narrow;
};

#define TENSORBOW_LOOP(name, target, lanes, vectors)                           \
  target void name(const float* a, const std::vector<PanelRows>& parts,        \
                   bool accumulate, int64_t width, float* c, int64_t stride) { \
    MultiplyBlock<lanes, vectors>(a, parts, accumulate, width, c, stride);     \
  }

TENSORBOW_LOOP(Portable, , 4, 2)
constexpr Loops kPortable = {Portable, Portable};
#if defined(__x86_64__) && defined(__GNUC__)
#define TENSORBOW_AVX2 __attribute__((target("avx2,fma")))
TENSORBOW_LOOP(Avx2, TENSORBOW_AVX2, 8, 2)
constexpr Loops kAvx2 = {Avx2, Avx2};
#define TENSORBOW_AVX512 __attribute__((target("avx512f")))
TENSORBOW_LOOP(Avx512, TENSORBOW_AVX512, 16, 4)
TENSORBOW_LOOP(NarrowAvx512, TENSORBOW_AVX512, 16, 1)
constexpr Loops kAvx512 = {Avx512, NarrowAvx512};
#endif

const Loops& ForThisProcessor() {
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_supports("avx512f")) return kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kAvx2;
#endif
  return kPortable;
}

// Multiplies a block that lies partly outside c.
void MultiplyEdge(const Loops& loops, const float* a,
                  const std::vector<PanelRows>& parts, bool accumulate, float* c,
                  int64_t stride, int64_t rows, int64_t columns) {
  float whole[kBlock * kPanel];
  if (accumulate) {
    std::fill_n(whole, kBlock * kPanel, 0.0f);
    for (int64_t i = 0; i < rows; ++i) {
      std::copy_n(c + i * stride, columns, whole + i * kPanel);
    }
  }
  loops.narrow(a, parts, accumulate, columns, whole, kPanel);
  for (int64_t i = 0; i < rows; ++i) {
    std::copy_n(whole + i * kPanel, columns, c + i * stride);
  }
}

}  // namespace

// A scratch holds packed rows of a: [blocks of rows][k][kBlock], missing rows are 0.
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

// Packs the terms' part of each block.
void Product::PackA(const Terms& terms, int64_t row, int64_t rows, float scale,
                    int64_t block_size, float* packed) {
  const Factors& factors = terms.product->factors_;
  const int64_t along_k = factors.a_transposed ? factors.rows : 1;
  const int64_t along_rows = factors.a_transposed ? 1 : factors.inner;
  const float* const a = factors.a + row * along_rows + terms.k * along_k;
  for (int64_t begin = 0; begin < rows; begin += kBlock, packed += block_size) {
    float* to = packed;
    for (int64_t d = 0; d < terms.depth; ++d) {
      for (int64_t i = 0; i < kBlock; ++i) {
        *to++ =
            begin + i < rows ? scale * a[(begin + i) * along_rows + d * along_k] : 0.0f;
      }
    }
  }
}

void Product::Multiply(const std::vector<Terms>& terms, int64_t row, int64_t rows,
                       bool add, float scale, float* scratch, float* out) {
  static const Loops& loops = ForThisProcessor();
  int64_t block_size = 0;
  for (const Terms& some : terms) block_size += some.depth * kBlock;
  int64_t begin = 0;
  for (const Terms& some : terms) {
    PackA(some, row, rows, scale, block_size, scratch + begin);
    begin += some.depth * kBlock;
  }
  const int64_t columns = terms.front().product->factors_.columns;
  std::vector<PanelRows> parts(terms.size());
  for (int64_t panel = 0; panel < Panels(columns); ++panel) {
    for (size_t i = 0; i < terms.size(); ++i) {
      const auto& [product, k, depth] = terms[i];
      parts[i] = {product->b_ + (panel * product->factors_.inner + k) * kPanel, depth};
    }
    const int64_t width = std::min<int64_t>(kPanel, columns - panel * kPanel);
    for (int64_t block = 0; block < Blocks(rows); ++block) {
      const float* const a = scratch + block * block_size;
      const int64_t height = std::min<int64_t>(kBlock, rows - block * kBlock);
      float* const c = out + block * kBlock * columns + panel * kPanel;
      if (width == kPanel && height == kBlock) {
        loops.whole(a, parts, add, kPanel, c, columns);
      } else {
        MultiplyEdge(loops, a, parts, add, c, columns, height, width);
      }
    }
  }
}

void Product::RowsOfSum(const std::vector<const Product*>& products, int64_t begin,
                        int64_t end, float scale, float* scratch, float* out) {
  const int64_t columns = products.front()->factors_.columns;
  std::vector<Terms> terms;
  terms.reserve(products.size());
  for (int64_t row = begin; row < end; row += kGroupRows) {
    const int64_t rows = std::min(kGroupRows, end - row);
    bool add = false;
    int64_t depth = 0;
    const auto multiply = [&] {
      Multiply(terms, row, rows, add, scale, scratch, out + (row - begin) * columns);
      terms.clear();
      add = true;
      depth = 0;
    };
    for (const Product* product : products) {
      const int64_t inner = product->factors_.inner;
      int64_t k = 0;
      do {  // at least once: an empty sum is 0
        if (depth == kDepth) multiply();
        terms.push_back({product, k, std::min(kDepth - depth, inner - k)});
        depth += terms.back().depth;
        k += terms.back().depth;
      } while (k < inner);
    }
    multiply();
  }
}

}  // namespace tensorbow
