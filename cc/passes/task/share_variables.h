// Finds variables that all learners can share under S-SGD, and makes them share one
// copy.
//
// With averaged gradients all replicas are the same, and a fused update is divided
// among the learners: each updates some of the slices. If nothing else writes the
// variable and its slots, one copy suffices, and no result has to be copied to other
// replicas. Variables of a slice or less keep their copies, which cost less than an
// exchange. Variables that a task only reads can be shared, too. Statistics, counters
// and variables written by other ops of the program stay each learner's own.
//
// A learner updates a slice whose old value others may still want to read. So every
// read of a shared variable comes before the TensorBowBeginUpdates (reduce_gradients.h)
// or after the variable's update. At that op all learners wait for each other. One of
// them gives a variable a new buffer if the old one is still referenced, so that values
// already read do not change. (TensorFlow's updates do so for resource variables.)
#ifndef TENSORBOW_CC_PASSES_TASK_SHARE_VARIABLES_H_
#define TENSORBOW_CC_PASSES_TASK_SHARE_VARIABLES_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/graph/task_graph.h"

namespace tensorbow {

// Names of variable nodes.
struct SharableVariables {
  std::set<std::string> used;  // all variables of the task
  // Variables that can be shared: each group as a whole, or not at all.
  std::vector<std::vector<std::string>> groups;
};

// Returns the variables. Pure function. REQUIRES: ReduceGradients() has been called for
// the task.
SharableVariables FindSharableVariables(const TaskGraph& task);

// Makes the task's updates work on one copy of the variables in `shared`, which
// consists of groups of FindSharableVariables(). `*num_gradients`: the exchanges of a
// task; one more if learners have to wait for each other for this.
absl::Status ShareVariables(const std::set<std::string>& shared, TaskGraph* task,
                            int* num_gradients);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_SHARE_VARIABLES_H_
