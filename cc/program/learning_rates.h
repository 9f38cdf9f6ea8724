// The learning rates of a learning run, watched for a drop.
#ifndef TENSORBOW_CC_PROGRAM_LEARNING_RATES_H_
#define TENSORBOW_CC_PROGRAM_LEARNING_RATES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/graph/program_graph.h"
#include "cc/learner/learner.h"
#include "cc/learner/learner_group.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/public/session_options.h"

namespace tensorbow {

// The evaluation of the rates of a run.
class LearningRates {
 public:
  // Watches the scalars `rates` of a run with these feeds: scalars that are fed, and
  // scalars that learner 0 can compute from its variables.
  absl::Status Compile(const ProgramGraph& graph, const std::vector<std::string>& feeds,
                       const std::vector<std::string>& rates,
                       const tensorflow::SessionOptions& options,
                       LearnerGroup* learners);

  // Evaluates the rates on `learner`, which compiled them.
  absl::StatusOr<std::vector<double>> Evaluate(
      const std::vector<tensorflow::Tensor>& feeds, Learner* learner) const;

 private:
  std::vector<int> fed_;                        // by feed
  std::unique_ptr<Learner::Program> computed_;  // null if there are none
};

// The rates of the last run, and whether one has dropped since the last question.
class RateHistory {
 public:
  // Records the rates. A rate drops if it becomes half of its value or less.
  void Record(std::vector<double> rates);
  bool TestAndClearDrop() { return std::exchange(dropped_, false); }

  // The saved state: the rates as last evaluated, and whether they have dropped. Rates
  // of a program with another number of them do not show a drop.
  const std::vector<double>& last() const { return last_; }
  bool dropped() const { return dropped_; }
  void Set(std::vector<double> last, bool dropped) {
    last_ = std::move(last);
    dropped_ = dropped;
  }

 private:
  std::vector<double> last_;
  bool dropped_ = false;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PROGRAM_LEARNING_RATES_H_
