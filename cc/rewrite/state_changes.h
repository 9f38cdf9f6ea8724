// What a learning run writes to variables that it does not train, and computes from the
// rows that it is fed: running metrics, counts of rows, moving averages, centres of
// classes; and rates of its optimisers that it computes from them. Pure functions.
#ifndef TENSORBOW_CC_REWRITE_STATE_CHANGES_H_
#define TENSORBOW_CC_REWRITE_STATE_CHANGES_H_

#include <string>
#include <vector>

#include "cc/analysis/run_analysis.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

struct StateChange {
  std::string variable;
  std::string tensor;  // what is added to it, or its new value
  std::string user;    // the node that takes the tensor for that
  bool replaces = false;
  bool in_rows = false;  // it goes to some rows of the variable, which differ by run
  bool is_rate = false;  // the optimiser of the variable, a trained one, takes it
};

// Not what follows from gradients, as slots of optimisers do, or from moments of the
// batch alone, as the statistics of batch normalisation do; nor what is written in
// functions, conditionals and loops.
std::vector<StateChange> FindStateChanges(const ProgramGraph& graph,
                                          const RunSpec& spec,
                                          const RunAnalysis& analysis);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REWRITE_STATE_CHANGES_H_
