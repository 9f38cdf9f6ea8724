// The correction towards the central model around an update that changes only some rows
// of a variable. The other rows are corrected in one pass over memory. The rows of the
// update keep their values; their corrections are stored and applied after it. So
//
//   w ← (w + u) − α (w − z)          w on the right before the update
//
// holds for all rows, and nothing of the others is copied. Thread-compatible.
#ifndef TENSORBOW_CC_ARITHMETIC_SPARSE_CORRECTION_H_
#define TENSORBOW_CC_ARITHMETIC_SPARSE_CORRECTION_H_

#include <cstdint>
#include <vector>

#include "cc/arithmetic/update_rules.h"
#include "cc/support/element.h"

namespace tensorbow {

template <typename S>
class SparseCorrection {
 public:
  using A = Accumulator<S>;

  // `rows`: the rows to be updated, in any order, with repetitions; the update itself
  // handles rows outside of the variable. `w`: the variable, not owned. REQUIRES:
  // `pull` has a z; row_size >= 1, in elements, or the variable is empty.
  SparseCorrection(std::vector<int64_t> rows, int64_t num_rows, int64_t row_size,
                   Pull<S> pull, S* w);

  // Is called before the update, for all parts [begin, end) of the variable's elements.
  void BeforeUpdate(int64_t begin, int64_t end);
  // Is called once, after the update.
  void AfterUpdate();

 private:
  std::vector<int64_t> rows_;  // ascending, each once
  const int64_t row_size_;
  const Pull<S> pull_;
  S* const w_;
  std::vector<A> remembered_;  // one row each
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_SPARSE_CORRECTION_H_
