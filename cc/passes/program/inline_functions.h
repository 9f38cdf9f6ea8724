// Replaces calls of functions by their bodies in which learners exchange values.
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

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_INLINE_FUNCTIONS_H_
