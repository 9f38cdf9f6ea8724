// Replaces calls of functions, and conditionals of functions, by nodes of the graph,
// where learners exchange values.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_INLINE_FUNCTIONS_H_
#define TENSORBOW_CC_PASSES_PROGRAM_INLINE_FUNCTIONS_H_

#include "absl/status/statusor.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

// `inlined` ← the part of `graph` that `spec` needs, without calls of functions;
// conditionals and loops that are functions stay. Identities of the results keep the
// names of the calls. Returns whether there were any. Pure function.
absl::StatusOr<bool> InlineFunctions(const ProgramGraph& graph, const RunSpec& spec,
                                     ProgramGraph* inlined);

// `lowered` ← the part of `graph` that `spec` needs, with switches and merges for all
// conditionals that TensorFlow lowers, too. Identities of the results keep the names of
// the conditionals. Returns whether there were any. Pure function.
absl::StatusOr<bool> LowerConditionals(const ProgramGraph& graph, const RunSpec& spec,
                                       ProgramGraph* lowered);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_INLINE_FUNCTIONS_H_
