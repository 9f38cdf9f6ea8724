// The rules that turn a run's feeds into those of tasks, and tasks' fetches into the
// run's. Pure function.
#ifndef TENSORBOW_CC_PROGRAM_RUN_RULES_H_
#define TENSORBOW_CC_PROGRAM_RUN_RULES_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/analysis/row_types/row_types.h"
#include "cc/config/options.h"
#include "cc/feeds/feeds.h"
#include "cc/feeds/sparse_rows.h"
#include "cc/graph/program_graph.h"
#include "cc/passes/program/resize_constants.h"
#include "cc/program/compiled_program.h"

namespace tensorbow {

// Sets the task, the feeds and the fetches of `program`. `graph`: as learners execute
// it. `sparse_feeds`: feeds that are parts of sparse tensors. `fixed`: feeds of a fixed
// number of rows. `in_step`: learners' variables are equal, and a fetch of a resource
// variable is its value before the step; otherwise it is the central one after it.
absl::Status FindRunRules(const ProgramGraph& graph, const RunSpec& spec,
                          const SparseFeeds& sparse_feeds, const FixedRows& fixed,
                          const Options& options, bool in_step,
                          CompiledProgram* program);

// Returns the numbers of the feeds that every learner always receives whole.
std::set<int> WholeFeeds(const std::vector<FeedDeclaration>& feeds);

// Returns the rows of a run by the declarations of its feeds; nullopt if a rank is not
// known.
std::optional<RowsOfRun> DeclaredRows(const std::vector<FeedDeclaration>& feeds);
// Returns the rows of a run that is fed `feeds`.
RowsOfRun PlannedRows(const std::vector<FeedDeclaration>& declarations,
                      const FeedPlan& plan,
                      const std::vector<tensorflow::Tensor>& feeds);

// Returns the rule for a fetch of such a type; nullopt if there is none.
std::optional<FetchRule> RuleForFetch(const RowType& type, const SizeTable& sizes,
                                      bool estimates);
// Returns the rule for a typed tensor. InvalidArgument if there is none.
absl::StatusOr<FetchRule> CombinationOf(const std::string& tensor,
                                        const RowTypes& types, bool estimates);

// Sets the combination of the tasks' fetches, by their types. InvalidArgument if a
// fetch cannot be combined.
absl::Status SetFetchRules(const RowTypes& types, bool estimates,
                           CompiledProgram* program);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PROGRAM_RUN_RULES_H_
