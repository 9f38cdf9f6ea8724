// Replaces calls of functions by their bodies, where learners exchange values.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_INLINE_FUNCTIONS_H_
#define TENSORBOW_CC_PASSES_PROGRAM_INLINE_FUNCTIONS_H_

#include "absl/status/statusor.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

// `inlined` ← what `spec` needs of `graph`, without calls of functions; conditionals
// and loops that are functions stay. Calls keep their names as identities of the
// results. Returns whether there were any. Pure function.
absl::StatusOr<bool> InlineFunctions(const ProgramGraph& graph, const RunSpec& spec,
                                     ProgramGraph* inlined);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_INLINE_FUNCTIONS_H_
