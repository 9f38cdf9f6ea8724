// Moments of a batch that can be given from outside, in a graph that is evaluated by
// some of its rows as learners that share the batch compute them: with the moments of
// all.
#ifndef TENSORBOW_CC_REWRITE_HELD_MOMENTS_H_
#define TENSORBOW_CC_REWRITE_HELD_MOMENTS_H_

#include "absl/status/statusor.h"
#include "cc/rewrite/program_graph.h"
#include "cc/rewrite/run_analysis.h"

namespace tensorbow {

// `held` ← what `spec` needs of `graph`, with a kMeanTogether (meetings.h) behind each
// moment by which rows are normalised and behind each gradient that a moment hands on
// to the rows ("part"). TensorFlow's batch normalisation ops are spelled out, under
// their names: these values are inside of them. Returns whether all of them are found;
// `held` is unspecified if not. `analysis`: of the run. Pure function.
absl::StatusOr<bool> HoldMoments(const ProgramGraph& graph, const RunSpec& spec,
                                 const RunAnalysis& analysis, ProgramGraph* held);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REWRITE_HELD_MOMENTS_H_
