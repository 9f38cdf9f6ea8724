// The invariants of graphs between passes. Pure functions.
#ifndef TENSORBOW_CC_PASSES_CHECK_GRAPH_H_
#define TENSORBOW_CC_PASSES_CHECK_GRAPH_H_

#include "absl/status/status.h"
#include "cc/graph/task_graph.h"
#include "cc/passes/pass.h"

namespace tensorbow {

// Checks the program. Returns Internal if two nodes have the same name, an input has no
// producer, or a circle is no loop.
absl::Status CheckGraph(const ProgramDraft& draft);

// Checks all parts of the task in the same way; InvalidArgument for a circle.
absl::Status CheckGraph(const TaskGraph& task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_CHECK_GRAPH_H_
