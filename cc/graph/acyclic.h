// Checks that a task graph can be executed.
#ifndef TENSORBOW_CC_GRAPH_ACYCLIC_H_
#define TENSORBOW_CC_GRAPH_ACYCLIC_H_

#include "absl/status/status.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Returns InvalidArgument if nodes wait for each other in a circle that is no loop.
// TensorFlow's executors silently skip such nodes and all nodes that wait for them.
// Pure function.
absl::Status CheckAcyclic(const tensorflow::Graph& graph);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_ACYCLIC_H_
