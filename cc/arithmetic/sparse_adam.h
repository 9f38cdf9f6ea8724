// Adam with a gradient of some rows, as TensorFlow's optimisers write it with separate
// ops. All rows move, since all slots decay. With g_r the gradient of row r, absent if
// the batch did not use the row:
//
//   m ← β1·m + (1 − β1)·g_r
//   v ← β2·v + (1 − β2)·g_r²
//   w ← (w − γ_t·m / (√v + ε)) − α (w − z)        w on the right before the update
//
// It takes one pass over memory, in TensorFlow's order of operations. Without a
// correction the result has the bits of TensorFlow's.
#ifndef TENSORBOW_CC_ARITHMETIC_SPARSE_ADAM_H_
#define TENSORBOW_CC_ARITHMETIC_SPARSE_ADAM_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "cc/arithmetic/update_rules.h"
#include "cc/arithmetic/update_steps.h"

namespace tensorbow {

// The additions to the slots. The arrays hold `row_size` elements for each of `rows`,
// in the same order; not owned.
template <typename T>
struct RowMoments {
  const T* m;  // (1 − β1)·g
  const T* v;  // (1 − β2)·g²
};

// An update of a whole variable. Thread-safe.
template <typename T>
class SparseAdam {
 public:
  // `rows`: of the moments, in any order; a row that occurs twice receives both, one
  // after the other. `row_size` in elements, >= 1 unless the variable is empty.
  SparseAdam(const SparseAdamStep<T>& step, const std::vector<int64_t>& rows,
             int64_t row_size, RowMoments<T> moments);

  // Updates the elements [begin, end). `w`, `m`, `v` and the pull's z start at the
  // variable's first element.
  void Update(int64_t begin, int64_t end, Pull<T> pull, T* w, T* m, T* v) const;

 private:
  // Adds the moments of the rows that have elements in [begin, end).
  void AddMoments(int64_t begin, int64_t end, T* m, T* v) const;

  const SparseAdamStep<T> step_;
  const int64_t row_size_;
  const RowMoments<T> moments_;
  std::vector<std::pair<int64_t, int64_t>> rows_;  // {row, position}, ascending
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_SPARSE_ADAM_H_
