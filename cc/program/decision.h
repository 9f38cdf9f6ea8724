// Decides who executes a learning run, and why. Pure functions.
#ifndef TENSORBOW_CC_PROGRAM_DECISION_H_
#define TENSORBOW_CC_PROGRAM_DECISION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/config/options.h"
#include "cc/feeds/feeds.h"
#include "cc/program/program.h"

namespace tensorbow {

// The decision who executes a run.
struct Decision {
  FeedPlan plan;
  std::string why_one_learner;  // empty: learners divide its rows
  bool recompile = false;       // the program is to be compiled first
  std::optional<RowsOfRun> rows;
  std::shared_ptr<const RowTypes> types;  // null: rows have none
  bool estimates = false;  // learners estimate values of all rows from their own
};

// Returns whether runs of so many learners can have more than one task.
bool MayDivide(const Options& options, int num_learners);

// Plans the division of `feeds`. `task_rows`: the rows of each learning task, in order,
// if they add up to the rows fed. A run that cannot be divided has a plan that says
// why.
absl::StatusOr<FeedPlan> PlanRun(const CompiledProgram& program,
                                 const std::vector<tensorflow::Tensor>& feeds,
                                 const std::vector<int64_t>& task_rows,
                                 const Options& options, int num_learners);

// Returns the rows that the program has to be compiled for before the run; nullopt if
// it is.
std::optional<RowsOfRun> RowsToCompile(const CompiledProgram& program,
                                       const std::vector<tensorflow::Tensor>& feeds,
                                       const FeedPlan& plan, const Options& options,
                                       int num_learners);

// Returns why one learner executes a run, though `program` and `plan` divide its rows;
// empty: learners do.
std::string WhyNotDivided(const CompiledProgram& program, const FeedPlan& plan,
                          const Options& options);

// Returns the warning for a run whose feeds cannot be divided. `why`:
// FeedPlan::ambiguous.
std::string AmbiguousFeedsText(const std::string& why);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PROGRAM_DECISION_H_
