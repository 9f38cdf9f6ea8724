// Marks where a graph computes the moments of a batch, so that some of the rows can be
// evaluated with the moments of all of them, as learners that share the batch do.
#ifndef TENSORBOW_CC_REWRITE_HELD_MOMENTS_H_
#define TENSORBOW_CC_REWRITE_HELD_MOMENTS_H_

#include "absl/status/statusor.h"
#include "cc/analysis/run_analysis.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

// `held` ← what `spec` needs of `graph`, with a kMeanTogether (insert_exchanges.h)
// after each moment by which rows are normalised, and one ("part") after each gradient
// of the loss by such a moment. TensorFlow's batch normalisation ops compute both
// inside of them: they are replaced by simple ops, and an IdentityN has their name.
// Returns whether all moments are found; `held` is unspecified if not. `analysis`: of
// the run. Pure function.
absl::StatusOr<bool> HoldMoments(const ProgramGraph& graph, const RunSpec& spec,
                                 const RunAnalysis& analysis, ProgramGraph* held);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REWRITE_HELD_MOMENTS_H_
