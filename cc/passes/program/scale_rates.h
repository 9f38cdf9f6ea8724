// Scales the learning rates of a run's optimisers by a factor of each learner. Pure
// function.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_SCALE_RATES_H_
#define TENSORBOW_CC_PASSES_PROGRAM_SCALE_RATES_H_

#include "absl/status/status.h"
#include "cc/analysis/run_analysis.h"
#include "cc/graph/program_graph.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace tensorbow {

// Sets `*scaled` to the part of `program` that `spec` needs. In it, the learning rates
// of all trained variables are multiplied by the learner's factor. InvalidArgument if
// the rate of one is not known.
absl::Status ScaleRates(const ProgramGraph& program, const RunSpec& spec,
                        const RunAnalysis& analysis, tensorflow::GraphDef* scaled);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_SCALE_RATES_H_
