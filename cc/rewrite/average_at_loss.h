// Averages gradients where they leave the loss, before the program clips, normalises or
// squares them by operations of its own, or writes an optimiser by hand.
//
// A mean of clipped gradients is not the clipped mean: learners that average what is
// given to TensorFlow's optimiser ops would make another step than one that computes
// the gradient of all rows. Pure functions.
#ifndef TENSORBOW_CC_REWRITE_AVERAGE_AT_LOSS_H_
#define TENSORBOW_CC_REWRITE_AVERAGE_AT_LOSS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/analysis/run_analysis.h"
#include "cc/graph/program_graph.h"
#include "cc/rewrite/gradient_sources.h"

namespace tensorbow {

// Gradients of a run where they leave the loss.
struct GradientsAtLoss {
  // Those that can be averaged there: dense ones of the shape of their variable. None
  // where the program says itself what its gradients are.
  std::vector<GradientSource> dense;
  bool reduced = false;  // by the program itself
  // Whether any is transformed on its way to the variable, and whether any of those
  // that cannot be averaged is.
  bool transformed = false;
  bool transformed_else = false;
};
GradientsAtLoss FindGradientsAtLoss(const ProgramGraph& graph, const RunSpec& spec,
                                    const RunAnalysis& analysis);

// Whether the run fetches, or writes to variables that it does not train, what it
// computes from one of them or from a gradient that it reduces itself. The norm of
// gradients is such: learners' norms do not tell that of the gradient of all rows. A
// gradient that is handed on does not count, nor what optimiser ops write.
bool FollowsFromGradients(const ProgramGraph& graph, const RunSpec& spec,
                          const RunAnalysis& analysis,
                          const std::vector<GradientSource>& gradients);

// `averaged` ← what `spec` needs of `graph`, with a TensorBowReduceGradient
// (reduce_gradients.h) after each of them: where its value is first used, so that what
// waits for the value alone does not wait for the average. So it is with gradients that
// the program reduces itself. Fetches of a gradient are a learner's own.
absl::Status AverageAtLoss(const ProgramGraph& graph, const RunSpec& spec,
                           const std::vector<GradientSource>& gradients,
                           ProgramGraph* averaged);

// The fetches of `spec` that are the same on all learners then, since they depend on
// rows by way of averages only. `averaged`: what AverageAtLoss() has made.
std::set<std::string> FetchesOfAverages(const ProgramGraph& averaged,
                                        const RunSpec& spec);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REWRITE_AVERAGE_AT_LOSS_H_
