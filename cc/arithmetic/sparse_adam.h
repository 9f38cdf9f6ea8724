// Adam with a gradient of some rows only, as TensorFlow's optimisers write it with
// separate ops: all rows move, since the slots of all decay. With g_r the gradient of
// row r, absent where a batch did not use the row:
//
//   m ← β1·m + (1 − β1)·g_r
//   v ← β2·v + (1 − β2)·g_r²
//   w ← (w − γ_t·m / (√v + ε)) − α (w − z)        w on the right before the update
//
// in one pass over memory, in TensorFlow's order of operations: without a correction
// the result has the bits of TensorFlow's.
#ifndef TENSORBOW_CC_ARITHMETIC_SPARSE_ADAM_H_
#define TENSORBOW_CC_ARITHMETIC_SPARSE_ADAM_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "cc/arithmetic/update_rules.h"
#include "cc/arithmetic/update_steps.h"

namespace tensorbow {

// What the rows add to the slots. The arrays hold `row_size` elements for each of
// `rows`, in the same order; not owned.
template <typename T>
struct RowMoments {
  const T* m;  // (1 − β1)·g
  const T* v;  // (1 − β2)·g²
};

// Thread-safe.
template <typename T>
class SparseAdam {
 public:
  // `rows`: of the moments, in any order; a row that comes twice gets both, one after
  // the other. `row_size` in elements, >= 1 unless the variable is empty.
  SparseAdam(const SparseAdamStep<T>& step, const std::vector<int64_t>& rows,
             int64_t row_size, RowMoments<T> moments);

  // Updates the elements [begin, end). `w`, `m`, `v`: of the whole variable; the
  // pull's z too.
  void Update(int64_t begin, int64_t end, Pull<T> pull, T* w, T* m, T* v) const;

 private:
  // Adds the moments of the rows that have elements in [begin, end).
  void AddMoments(int64_t begin, int64_t end, T* m, T* v) const;

  const SparseAdamStep<T> step_;
  const int64_t row_size_;
  const RowMoments<T> moments_;
  std::vector<std::pair<int64_t, int64_t>> rows_;  // {row, place}, ascending
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_SPARSE_ADAM_H_
