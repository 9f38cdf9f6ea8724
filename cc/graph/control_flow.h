// TensorFlow 1's control flow: conditionals and loops whose nodes lie in the graph
// itself. Pure functions.
#ifndef TENSORBOW_CC_GRAPH_CONTROL_FLOW_H_
#define TENSORBOW_CC_GRAPH_CONTROL_FLOW_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

// Returns true if a value enters a conditional or a loop at the node.
bool BeginsControlFlow(const tensorflow::NodeDef& node);

// Returns whether `tensor` ("node:index" or a node) lies inside a conditional or a
// loop: a run that fetches it may find no value, or several. Tensors behind them have
// one.
bool LiesInControlFlow(const ProgramGraph& graph, absl::string_view tensor);

// A branch of a conditional, executed if the predicate has the value.
struct Branch {
  std::string predicate;  // a tensor
  bool value = false;
};

// Returns the branches in which a node lies, outermost first; nullopt if it lies in a
// loop, or if they are not known.
std::optional<std::vector<Branch>> BranchesOf(const ProgramGraph& graph,
                                              absl::string_view node);

// Returns the initial value of a loop variable if `tensor` is its final value; else
// `tensor`. Both have the same shape, unless the program allows a change.
std::string BeforeLoop(const ProgramGraph& graph, const std::string& tensor);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_CONTROL_FLOW_H_
