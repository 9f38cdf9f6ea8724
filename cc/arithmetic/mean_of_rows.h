// The average of what several learners have for some rows of a variable each, in
// learner order: a row that a learner does not have is zero there. Sums are taken in
// the accumulation type. Pure functions.
#ifndef TENSORBOW_CC_ARITHMETIC_MEAN_OF_ROWS_H_
#define TENSORBOW_CC_ARITHMETIC_MEAN_OF_ROWS_H_

#include <cstdint>
#include <vector>

#include "cc/support/element.h"

namespace tensorbow {

// What one learner has. A row that comes twice counts with the sum of both.
template <typename S>
struct LearnerRows {
  const std::vector<int64_t>* rows;  // in any order
  const S* values;                   // the elements of each
  double share;                      // its weight, relative to an equal one
};

// The rows that anybody has: ascending, each once.
template <typename S>
std::vector<int64_t> UnionOfRows(const std::vector<LearnerRows<S>>& all);

// mean = Σ_j share_j · values_j / number of learners, j in order, for each of `rows`,
// which are the union; rows of `row_size` elements.
template <typename S>
void MeanOfRows(const std::vector<LearnerRows<S>>& all,
                const std::vector<int64_t>& rows, int64_t row_size, S* mean);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_MEAN_OF_ROWS_H_
