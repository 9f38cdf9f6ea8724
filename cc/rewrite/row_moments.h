// Moments of a batch: the means over rows by which a program normalises them. Found,
// and made those of the rows of all learners. Pure functions.
#ifndef TENSORBOW_CC_REWRITE_ROW_MOMENTS_H_
#define TENSORBOW_CC_REWRITE_ROW_MOMENTS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "cc/analysis/run_analysis.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

struct RowMoments {
  bool fused = false;  // TensorFlow's batch normalisation ops in training mode
  // By hand, as Keras 3 does: a mean over rows, and one of squared differences from it.
  std::vector<const tensorflow::NodeDef*> means;

  bool any() const { return fused || !means.empty(); }
};
RowMoments FindRowMoments(const ProgramGraph& graph, const RunSpec& spec);

// The tensors that are moments of the batch, with those of the fused operations.
absl::flat_hash_set<std::string> MomentTensors(
    const ProgramGraph& graph, const RunSpec& spec,
    const std::vector<const tensorflow::NodeDef*>& nodes);

// `together` ← what `spec` needs of `graph`, with the moments by hand, and the
// gradients that they hand on to the rows, averaged over the learners, weighted by
// their rows (kMeanTogether). Those whose gradients are not to be seen stay as they
// are: returns whether there are none. `analysis`: of the run. `sums`: the loss sums
// over rows.
absl::StatusOr<bool> AverageMoments(const ProgramGraph& graph, const RunSpec& spec,
                                    const RunAnalysis& analysis, bool sums,
                                    ProgramGraph* together);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REWRITE_ROW_MOMENTS_H_
