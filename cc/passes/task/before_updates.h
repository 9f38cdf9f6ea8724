// Parts of a task that are executed before learners wait for each other's gradients:
// reads of variables, refills of queues, the program's assertions.
#ifndef TENSORBOW_CC_PASSES_TASK_BEFORE_UPDATES_H_
#define TENSORBOW_CC_PASSES_TASK_BEFORE_UPDATES_H_

#include <vector>

#include "absl/status/status.h"
#include "cc/graph/downstream.h"
#include "cc/passes/task/exchange_levels.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Ties them to `begin` by control edges. `conditional`: nodes that are not executed in
// every task; `after`: nodes downstream of updates. InvalidArgument if a queue would be
// refilled too late.
absl::Status ExecuteBefore(tensorflow::Node* begin, const NodeSet& conditional,
                           const NodeSet& after, tensorflow::Graph* graph);

// A node that writes a variable.
struct VariableWrite {
  const tensorflow::Node* variable;
  const tensorflow::Node* write;
};

// Returns InvalidArgument if a variable is used in no order with a write of it that
// follows no average: a stock session chooses the order by chance.
absl::Status CheckOrderOfWrites(const std::vector<VariableWrite>& writes,
                                const ExchangeLevels& levels);

// Returns InvalidArgument if a learner would wait for the others, at one of the
// `exchanges`, in a critical section: they could not enter it.
absl::Status CheckCriticalSections(
    const std::vector<const tensorflow::Node*>& exchanges,
    const tensorflow::Graph& graph);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_BEFORE_UPDATES_H_
