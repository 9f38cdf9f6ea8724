// Combines the values of a fetch from several learning tasks into the caller's value.
// Pure functions.
#ifndef TENSORBOW_CC_FEEDS_FETCHES_H_
#define TENSORBOW_CC_FEEDS_FETCHES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

// The ways to make one value of the learners' values of a fetch.
enum class Combination { kMean, kSum, kConcat, kFirst, kStack };

// The rule that makes the value of all rows from those of tasks, by its row type.
struct FetchRule {
  // kEstimates: values computed from each task's own rows; the mean, if they are
  // floats. kCounts: multiples of powers of the number of rows.
  enum class How { kFirst, kRows, kSum, kMax, kMin, kAll, kAny, kEstimates, kCounts };
  How how = How::kFirst;
  int axis = 0;  // of kRows
  // The power of r, all rows by the task's, that values are divided by first.
  int exponent = 0;
  std::vector<int> powers;  // of kCounts, by element
};

struct FetchDeclaration {
  std::string name;
  bool leading_dimension_unknown = false;
  std::optional<Combination> combination;  // the user's choice
  std::optional<FetchRule> rule;           // nullopt: by type and shape
};

// One task's part in a run.
struct TaskOutcome {
  int learner = 0;
  int64_t rows = 0;  // 0 if unknown
  std::vector<tensorflow::Tensor> fetches;
};

// Combines fetch number `fetch` of all tasks (in row order, at least one), by the first
// that applies:
//
// - the user's choice
// - the rule
// - an unknown leading dimension equal to each task's rows: concatenated in row order
// - floating point of equal shapes: the mean, weighted by rows
// - everything else: the value of learner 0's last task
absl::StatusOr<tensorflow::Tensor> Combine(const FetchDeclaration& declaration,
                                           const std::vector<TaskOutcome>& tasks,
                                           size_t fetch);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_FEEDS_FETCHES_H_
