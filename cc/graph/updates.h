// Finds a task graph's updates of a variable, and replaces nodes.
#ifndef TENSORBOW_CC_GRAPH_UPDATES_H_
#define TENSORBOW_CC_GRAPH_UPDATES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Returns the variable's edges to ops that may change it, directly or because they pass
// its handle on through loops and branches.
std::vector<const tensorflow::Edge*> WritingEdges(const tensorflow::Node& variable);

// Returns the only op that writes the variable, or null. It must take the variable
// directly as its first input, not through control flow or a function. Executing it
// once a task then is all that changes the variable.
tensorflow::Node* OnlyUpdate(const tensorflow::Node& variable);

// Returns the input of an optimiser op that is its dense gradient, or -1.
int GradientInput(const tensorflow::Node& update);

// Returns whether the update is a fused op of a trained variable, which corrects or
// averages by itself (tf_ops/ops/fused_update_ops.cc).
bool IsFusedUpdate(const tensorflow::Node& update);

// Replaces `old`, which is deleted, by a new node with its default attributes, the same
// edges and the same device.
absl::StatusOr<tensorflow::Node*> ReplaceNode(tensorflow::Node* old,
                                              tensorflow::NodeDef definition,
                                              tensorflow::Graph* graph);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_UPDATES_H_
