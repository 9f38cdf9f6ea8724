// The check that a run computes its gradients before its first update, as S-SGD needs
// them. It needs no lowered graph: lowering takes most of a first run.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_GRADIENTS_FIRST_H_
#define TENSORBOW_CC_PASSES_PROGRAM_GRADIENTS_FIRST_H_

#include "absl/status/status.h"
#include "cc/analysis/run_analysis.h"
#include "cc/graph/run_graph.h"

namespace tensorbow {

// Returns an error if an averaged gradient is computed from a trained variable that is
// read after an update. ReduceGradients() finds what this leaves, such as references.
absl::Status CheckGradientsFirst(const RunGraph& run, const RunAnalysis& analysis);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_GRADIENTS_FIRST_H_
