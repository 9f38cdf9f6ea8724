// Describes the optimisers of a learning run: kind, learning rate and momentum. Pure
// function.
#ifndef TENSORBOW_CC_ANALYSIS_OPTIMISERS_H_
#define TENSORBOW_CC_ANALYSIS_OPTIMISERS_H_

#include <functional>
#include <vector>

#include "cc/analysis/run_analysis.h"
#include "cc/graph/dataflow.h"
#include "cc/graph/run_graph.h"

namespace tensorbow {

// A run's nodes and their effects on its variables, which are the roots.
struct RunEffects {
  Dataflow* dataflow;
  const EffectSummary& summary;
  const std::vector<const tensorflow::NodeDef*>& variables;
  std::function<bool(int root)> is_trainable;
};

// Fills in the fields of `analysis` about optimisers. `analysis->variables` already
// marks the trained ones.
void DescribeOptimisers(const RunGraph& run, const RunEffects& effects,
                        RunAnalysis* analysis);

// Returns whether the variable holds floating-point or complex numbers.
bool IsFloating(const tensorflow::NodeDef& variable);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_OPTIMISERS_H_
