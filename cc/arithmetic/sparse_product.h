// Products of a sparse matrix a and a dense one: all of a·b or aᵀ·b, or the rows of
// aᵀ·b that are not empty. If x is sparse, the gradient of the weights w of x·w is
// xᵀ·dy. It has a row for every feature, and most of them are zero.
//
//   c(j, ·) = Σ_i a(i, j)·b(i, ·)        for the columns j that a has entries in
//
// Sums are taken in the order of the entries and every product is rounded, as in
// TensorFlow's SparseTensorDenseMatMul: the same bits. Float32. Does not own the
// factors. Thread-compatible.
#ifndef TENSORBOW_CC_ARITHMETIC_SPARSE_PRODUCT_H_
#define TENSORBOW_CC_ARITHMETIC_SPARSE_PRODUCT_H_

#include <cstdint>
#include <vector>

namespace tensorbow {

class SparseProduct {
 public:
  struct Factors {
    const int64_t* indices;  // of a: row and column of every entry, in any order
    const float* values;     // of a, one per entry
    int64_t entries;
    int64_t a_rows;
    int64_t a_columns;
    const float* b;   // row-major; as many rows as the product sums over
    int64_t columns;  // of b
  };

  // Returns the first entry that lies outside of a, or -1.
  static int64_t FirstOutside(const Factors& factors);

  // out ← a·b or, if `transposed`, aᵀ·b. REQUIRES: all entries lie in a.
  static void Whole(const Factors& factors, bool transposed, float* out);

  // REQUIRES: all entries lie in a.
  explicit SparseProduct(const Factors& factors);

  // Returns the columns of a that have entries, ascending.
  const std::vector<int64_t>& rows() const { return rows_; }
  // out ← the product's rows with the numbers rows(), rows().size() × columns.
  void Compute(float* out) const;

 private:
  // Sorts order_ by columns; entries of one column keep their order.
  void Sort();

  const Factors factors_;
  std::vector<int64_t> order_;  // numbers of entries
  std::vector<int64_t> rows_;
  std::vector<int64_t> ends_;  // the ends of the rows' entries in order_
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_SPARSE_PRODUCT_H_
