// The rules by which a run's feeds become those of tasks, and tasks' fetches the run's.
// Pure function.
#ifndef TENSORBOW_CC_PROGRAM_RUN_RULES_H_
#define TENSORBOW_CC_PROGRAM_RUN_RULES_H_

#include <set>
#include <vector>

#include "absl/status/status.h"
#include "cc/config/options.h"
#include "cc/feeds/sparse_rows.h"
#include "cc/graph/program_graph.h"
#include "cc/passes/program/resize_constants.h"
#include "cc/program/compiled_program.h"

namespace tensorbow {

// Sets the task, the feeds and the fetches of `program`. `graph`: as learners execute
// it. `sparse_feeds`: feeds that are parts of sparse tensors. `fixed`: feeds of a fixed
// number of rows.
absl::Status FindRunRules(const ProgramGraph& graph, const RunSpec& spec,
                          const SparseFeeds& sparse_feeds, const FixedRows& fixed,
                          const Options& options, bool replicated,
                          CompiledProgram* program);

// Returns the numbers of the feeds that every learner has whole, whatever is fed.
std::set<int> WholeFeeds(const std::vector<FeedDeclaration>& feeds);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PROGRAM_RUN_RULES_H_
