// Finds the ops of a task that refill the queues it takes elements from.
#ifndef TENSORBOW_CC_PASSES_TASK_REFILLS_H_
#define TENSORBOW_CC_PASSES_TASK_REFILLS_H_

#include <vector>

#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Returns the nodes that put an element into a store from which another node of the
// graph takes one, sorted by name. Stores are queues, barriers, priority queues and
// staging areas. Pure function.
std::vector<tensorflow::Node*> Refills(const tensorflow::Graph& graph);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_REFILLS_H_
