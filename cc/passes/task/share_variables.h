// Of which variables learners can keep one copy for all of them, for S-SGD.
//
// With averaged gradients all replicas are the same, and a fused update is divided
// among the learners: each makes it in some of the slices. If nothing else writes the
// variable and its slots, one copy does, and nothing has to be copied to the others'
// replicas; variables of a slice or less keep their copies, which take less time than
// to meet for one. What a task only reads can be shared, too. Statistics, counters and
// whatever an op of the program's own writes stay each learner's.
//
// A learner updates a slice that others may still want to read as it was. So everything
// that reads a shared variable comes before the TensorBowBeginUpdates
// (reduce_gradients.h) or after the variable's update; at that op all learners wait for
// each other, and one of them gives variables whose buffer is still referred to another
// one, so that what has been read stays as it was (an update of TensorFlow's does so
// for resource variables).
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
  std::set<std::string> used;  // all of the task's
  // Those that can be shared: each group as a whole, or not at all.
  std::vector<std::vector<std::string>> groups;
};

// Pure function. REQUIRES: ReduceGradients() has been called for the task.
SharableVariables FindSharableVariables(const TaskGraph& task);

// Has the task's updates work on one copy of the variables in `shared`, which consists
// of groups of FindSharableVariables(). `*num_gradients`: where learners meet before
// their updates; one more if they have to meet for this.
absl::Status ShareVariables(const std::set<std::string>& shared, TaskGraph* task,
                            int* num_gradients);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_SHARE_VARIABLES_H_
