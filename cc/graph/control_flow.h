// TensorFlow 1's control flow: conditionals and loops whose nodes lie in the graph
// itself. Pure functions.
#ifndef TENSORBOW_CC_GRAPH_CONTROL_FLOW_H_
#define TENSORBOW_CC_GRAPH_CONTROL_FLOW_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

// Whether a run that fetches `tensor` ("node:index" or a node) may find it without a
// value, or with several: it lies inside a conditional or a loop. Behind them it has
// one.
bool LiesInControlFlow(const ProgramGraph& graph, absl::string_view tensor);

// Where `tensor` is what a loop variable is after the loop: what that is before it,
// which is of the same shape, unless the program says that it may change. Else
// `tensor`.
std::string BeforeLoop(const ProgramGraph& graph, const std::string& tensor);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_CONTROL_FLOW_H_
