// Rewriting of the part of a program's graph that a run needs, as a TensorFlow graph.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_REWRITE_RUN_H_
#define TENSORBOW_CC_PASSES_PROGRAM_REWRITE_RUN_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "cc/graph/program_graph.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Returns the function that a node calls; null if it calls none.
const tensorflow::FunctionDef* FunctionOf(
    const tensorflow::AttrSlice& attributes, const std::string& op,
    const tensorflow::FunctionLibraryDefinition& functions);

// Returns whether `spec` needs a node that `fits`.
absl::StatusOr<bool> NeedsAny(
    const ProgramGraph& graph, const RunSpec& spec,
    const std::function<bool(const tensorflow::NodeDef*)>& fits);

// `rewritten` ← the part of `graph` that `spec` needs after `rewrite`, which returns
// whether it has changed the graph. Returns the same.
absl::StatusOr<bool> RewriteRun(
    const ProgramGraph& graph, const RunSpec& spec,
    const std::function<absl::StatusOr<bool>(tensorflow::Graph*)>& rewrite,
    ProgramGraph* rewritten);

// Inlines all calls in the graph; conditionals and loops that are functions stay.
// Returns whether there were any.
absl::StatusOr<bool> InlineCalls(tensorflow::Graph* graph);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_REWRITE_RUN_H_
