// A matrix product, some rows at a time. So the gradient of a dense layer's weights,
// xᵀ·dy, is consumed row by row and never lies in memory as a whole.
//
//   c(i, j) = Σ_k a(i, k)·b(k, j)
//
// Several products are added up as if the rows of the batch lay in one place. Sums are
// taken in the order of k, and of the products. A multiply-add is rounded once if the
// processor has the instruction. The same calls give the same bits, however the rows
// are divided. Float32. Several threads may multiply at once, each with its own
// scratch; `a` and the workspace are not owned.
#ifndef TENSORBOW_CC_ARITHMETIC_PRODUCT_H_
#define TENSORBOW_CC_ARITHMETIC_PRODUCT_H_

#include <cstdint>
#include <vector>

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

  // Returns the floats that the workspace must hold.
  static int64_t WorkspaceSize(const Factors& factors);
  // The floats that a scratch must hold.
  static constexpr int64_t kScratchSize = 64 * 1024;

  // Copies b, times `scale`, into the workspace, in the order of reading.
  Product(const Factors& factors, float* workspace, float scale = 1);

  // out ← scale · rows [begin, end) of the products' sum, one after the other. The
  // products, at least one, have the same numbers of rows and columns.
  static void RowsOfSum(const std::vector<const Product*>& products, int64_t begin,
                        int64_t end, float scale, float* scratch, float* out);

 private:
  // Terms of a sum: a range of one product's k.
  struct Terms {
    const Product* product;
    int64_t k;
    int64_t depth;
  };

  static void Multiply(const std::vector<Terms>& terms, int64_t row, int64_t rows,
                       bool add, float scale, float* scratch, float* out);
  static void PackA(const Terms& terms, int64_t row, int64_t rows, float scale,
                    int64_t block_size, float* packed);

  const Factors factors_;
  float* const b_;  // [panels][inner][kPanel], missing columns are 0
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_PRODUCT_H_
