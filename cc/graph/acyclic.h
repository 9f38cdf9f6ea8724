// Whether all of a task graph can be executed.
#ifndef TENSORBOW_CC_GRAPH_ACYCLIC_H_
#define TENSORBOW_CC_GRAPH_ACYCLIC_H_

#include "absl/status/status.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// InvalidArgument if nodes wait for each other in a circle that is no loop.
// TensorFlow's executors leave such nodes, and all that waits for them, out without a
// word. Pure function.
absl::Status CheckAcyclic(const tensorflow::Graph& graph);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_ACYCLIC_H_
