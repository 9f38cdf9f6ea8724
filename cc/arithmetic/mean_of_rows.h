// The mean of several learners' sparse gradients, summed in learner order and in the
// accumulation type. A row that a learner lacks counts as zero. Pure functions.
#ifndef TENSORBOW_CC_ARITHMETIC_MEAN_OF_ROWS_H_
#define TENSORBOW_CC_ARITHMETIC_MEAN_OF_ROWS_H_

#include <cstdint>
#include <vector>

#include "cc/support/element.h"

namespace tensorbow {

// One learner's rows of a variable. A row that occurs twice counts with the sum of
// both.
template <typename S>
struct LearnerRows {
  const std::vector<int64_t>* rows;  // in any order
  const S* values;                   // the elements of the rows
  double share;                      // its weight, 1 if all are equal
};

// Returns the rows that any learner has: ascending, each once.
template <typename S>
std::vector<int64_t> UnionOfRows(const std::vector<LearnerRows<S>>& all);

// mean = Σ_j share_j · values_j / number of learners, j in order, for each of `rows`,
// which are the union; rows have `row_size` elements.
template <typename S>
void MeanOfRows(const std::vector<LearnerRows<S>>& all,
                const std::vector<int64_t>& rows, int64_t row_size, S* mean);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_MEAN_OF_ROWS_H_
