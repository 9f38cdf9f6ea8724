// Scales gradients of a loss that sums over rows, so that the average of the learners'
// is the gradient of the whole feed. Pure function.
#ifndef TENSORBOW_CC_REWRITE_SCALE_GRADIENTS_H_
#define TENSORBOW_CC_REWRITE_SCALE_GRADIENTS_H_

#include <set>
#include <string>

#include "absl/status/status.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

// Makes `*scaled` the part of `program` that `spec` needs, in which every consumer of
// one of `tensors` gets it multiplied by the number of learners that share the rows of
// a run. But not on the way to others of them, which would be scaled twice, nor to a
// fetch: what leads there and elsewhere is computed once more. FailedPrecondition if
// that cannot be.
absl::Status ScaleGradients(const ProgramGraph& program, const RunSpec& spec,
                            const std::set<std::string>& tensors, ProgramGraph* scaled);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REWRITE_SCALE_GRADIENTS_H_
