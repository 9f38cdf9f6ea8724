// What the optimisers of a learning run are: what they take as learning rate and
// momentum, and of which kind they are. Pure function.
#ifndef TENSORBOW_CC_ANALYSIS_OPTIMISERS_H_
#define TENSORBOW_CC_ANALYSIS_OPTIMISERS_H_

#include <functional>
#include <vector>

#include "cc/analysis/run_analysis.h"
#include "cc/graph/dataflow.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

// A run's nodes and what they do to its variables, which are the roots.
struct RunEffects {
  Dataflow* dataflow;
  const EffectSummary& summary;
  const std::vector<const tensorflow::NodeDef*>& variables;
  std::function<bool(int root)> is_trainable;
};

// Fills in what `analysis` says about optimisers. `analysis->variables` says already
// which are trained.
void DescribeOptimisers(const ProgramGraph& graph, const RunEffects& effects,
                        RunAnalysis* analysis);

// Whether the variable holds floating-point or complex numbers.
bool IsFloating(const tensorflow::NodeDef& variable);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_OPTIMISERS_H_
