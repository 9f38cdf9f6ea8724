// Where a task graph updates a variable, and what it takes to change that.
#ifndef TENSORBOW_CC_GRAPH_UPDATES_H_
#define TENSORBOW_CC_GRAPH_UPDATES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Where the variable is written: the edges from it that lead to an op that may change
// it, directly or by handing a resource's handle on through loops and branches.
std::vector<const tensorflow::Edge*> WritingEdges(const tensorflow::Node& variable);

// The one op that writes the variable, if there is only one and it takes the variable
// directly as its first input, not through control flow or a function: then executing
// it once a task is all that can happen to the variable. Else null.
tensorflow::Node* OnlyUpdate(const tensorflow::Node& variable);

// The input of an optimiser op that is its dense gradient, or -1.
int GradientInput(const tensorflow::Node& update);

// Returns whether the update is a fused op of a trained variable, which corrects or
// averages by itself (tf_ops/ops/fused_update_ops.cc).
bool IsFusedUpdate(const tensorflow::Node& update);

// Puts a new node, with its default attributes filled in, in the place of `old`, which
// is deleted: same edges, same device.
absl::StatusOr<tensorflow::Node*> ReplaceNode(tensorflow::Node* old,
                                              tensorflow::NodeDef definition,
                                              tensorflow::Graph* graph);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_UPDATES_H_
