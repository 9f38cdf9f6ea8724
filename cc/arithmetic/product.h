// A matrix product, some rows at a time: the gradient of a dense layer's weights,
// xᵀ·dy, is used up row by row and never has to lie in memory as a whole.
//
//   c(i, j) = Σ_k a(i, k)·b(k, j)
//
// Every sum is taken in the order of k, with one rounding for each multiply-add where
// the processor has such an instruction: the same calls give the same bits, however the
// rows are divided. Float32. Several threads may multiply at once, each with a scratch
// of its own; `a` and the workspace are not owned.
#ifndef TENSORBOW_CC_ARITHMETIC_PRODUCT_H_
#define TENSORBOW_CC_ARITHMETIC_PRODUCT_H_

#include <cstdint>

namespace tensorbow {

class Product {
 public:
  // Row-major matrices: a is rows × inner or, if transposed, inner × rows; b is
  // inner × columns.
  struct Factors {
    const float* a;
    bool a_transposed;
    const float* b;
    int64_t rows;
    int64_t inner;
    int64_t columns;
  };

  // How many floats the workspace must hold.
  static int64_t WorkspaceSize(const Factors& factors);
  // How many a scratch must hold.
  static constexpr int64_t kScratchSize = 64 * 1024;

  // Copies b, times `scale`, into the workspace, in the order in which it is read.
  Product(const Factors& factors, float* workspace, float scale = 1);

  // out ← rows [begin, end), one after the other.
  void Rows(int64_t begin, int64_t end, float* scratch, float* out) const {
    Sum(begin, end, /*add=*/false, scratch, out);
  }
  // out ← out + those: the sums go on from what is there.
  void AddRows(int64_t begin, int64_t end, float* scratch, float* out) const {
    Sum(begin, end, /*add=*/true, scratch, out);
  }

 private:
  void Sum(int64_t begin, int64_t end, bool add, float* scratch, float* out) const;
  void PackA(int64_t row, int64_t rows, int64_t k, int64_t depth, float* packed) const;
  void Multiply(const float* a, int64_t rows, int64_t k, int64_t depth, bool add,
                float* out) const;

  const Factors factors_;
  float* const b_;  // [panels][inner][kPanel], columns that do not exist are 0
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_PRODUCT_H_
