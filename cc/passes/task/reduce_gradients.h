// Prepares a program's updates for averaged gradients, for S-SGD.
//
// Gradients are found in TensorFlow's optimiser ops. Fused updates of dense gradients
// average by themselves, unless that is to be done before. The gradients of other
// updates pass through a TensorBowReduceGradient or, if they are of some rows, a
// TensorBowReduceRows. A program with other kinds of updates has these ops after its
// gradients (tensorbow/keras), and its updates compute everything from their results.
//
// All exchanges are chained by control edges, so that learners reach them in the same
// order. No update is executed before all gradients have been computed, except those
// that follow from an update (exchange_levels.h). At that moment the only node of op
// kBeginUpdates is executed: a task that fails before it has averaged nothing. The
// program's assertions and the refills of the task's queues come before it, too. Pure
// function.
#ifndef TENSORBOW_CC_PASSES_TASK_REDUCE_GRADIENTS_H_
#define TENSORBOW_CC_PASSES_TASK_REDUCE_GRADIENTS_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/graph/task_graph.h"

namespace tensorbow {

constexpr char kBeginUpdates[] = "TensorBowBeginUpdates";

// The place where dense gradients of fused updates are averaged.
enum class Averaging { kInUpdates, kBefore };

// Returns whether the update is an optimiser op with a dense gradient. The gradient is
// a learner's own, or averaged only by the program's own reduction.
bool IsOfGradient(const tensorflow::Node& update);

// Prepares all updates; returns the number of reductions. `trained`: names of variable
// nodes. `whole_feeds`: numbers of the feeds that are not divided. `sums`: names of the
// nodes that write a learner's own part of a gradient, if row types are known; then all
// other written values are the same on all learners. InvalidArgument, with the graph
// unusable, if
//
// - a trained variable is not updated by one optimiser op, and its value depends on a
//   task's rows other than through the program's own reductions; with `sums`: one of
//   them is not averaged;
// - a gradient is averaged in a conditional or, with kBefore, depends on an update or
//   an average, also by waiting for it;
// - a trained variable is used in no order with another write of it;
// - a queue that the task takes from is refilled there (refills.h).
//
// The task graph must have been optimised, and FuseUpdates() called for updates that
// are of a gradient.
absl::StatusOr<int> ReduceGradients(const std::vector<std::string>& trained,
                                    const std::set<int>& whole_feeds,
                                    const std::optional<std::set<std::string>>& sums,
                                    Averaging averaging, TaskGraph* task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_REDUCE_GRADIENTS_H_
