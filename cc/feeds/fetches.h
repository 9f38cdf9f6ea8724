// How the values that several learning tasks computed for one fetch become the value
// the caller gets. Pure functions.
#ifndef TENSORBOW_CC_FEEDS_FETCHES_H_
#define TENSORBOW_CC_FEEDS_FETCHES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

// How the learners' values of one fetch become one value.
enum class Combination { kMean, kSum, kConcat, kFirst, kStack };

// The value of all rows, from those of tasks, by the tensor's row type.
struct FetchRule {
  // kEstimates: the mean, if they are floats, of values by each task's own rows.
  // kCounts: numbers that are multiples of powers of the number of rows.
  enum class How { kFirst, kRows, kSum, kMax, kMin, kAll, kAny, kEstimates, kCounts };
  How how = How::kFirst;
  int axis = 0;  // of kRows
  // The power of r, all rows by the task's, by which values are divided first.
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

// Combines fetch number `fetch` of all tasks (in row order, at least one):
//   the user's choice, else
//   the rule, else
//   unknown leading dimension that equals each task's rows: concatenated in row order
//   floating point of equal shapes: mean, weighted by rows
//   everything else: the value of learner 0's last task
absl::StatusOr<tensorflow::Tensor> Combine(const FetchDeclaration& declaration,
                                           const std::vector<TaskOutcome>& tasks,
                                           size_t fetch);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_FEEDS_FETCHES_H_
