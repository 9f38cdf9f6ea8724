// Prepares a program's updates for averaged gradients, for S-SGD.
//
// Gradients are found in TensorFlow's optimiser ops. Fused updates of dense gradients
// average by themselves, unless that is to be done before; the gradients of others pass
// through a TensorBowReduceGradient or, if they are of some rows, a
// TensorBowReduceRows. A program whose updates are written otherwise has these ops
// where its gradients are known (tensorbow/keras), and everything that its updates
// compute comes after them.
//
// All that meets other learners is chained by control edges, so that everybody comes to
// it in the same order, and no update is executed before all gradients have been
// computed, which is when the one node of op kBeginUpdates is executed: a task that
// fails before has changed nothing. The program's assertions and what refills a queue
// that the task takes from come before, too. Pure function.
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

// Where dense gradients of fused updates are averaged.
enum class Averaging { kInUpdates, kBefore };

// Whether the update is an optimiser op with a dense gradient that is still a learner's
// own, or passes through a reduction of the program's on its way to the op.
bool IsOfGradient(const tensorflow::Node& update);

// `trained`: names of variable nodes. `whole_feeds`: numbers of the feeds that are not
// divided. `sums`: names of the nodes that write a learner's own part of a gradient, if
// row types tell; everything else that is written is then the same on all learners.
// Returns the number of reductions.
// InvalidArgument, with the graph unusable, if
//   - a trained variable is updated neither by one optimiser op nor by what depends on
//   a task's rows through the program's own reductions only; with `sums`: one of them
//   is not averaged;
//   - a gradient is averaged in a conditional, or depends on an update or an average,
//   also by waiting for it;
//   - a queue that the task takes from is refilled there (refills.h).
// The task graph must have been optimised, and FuseUpdates() called for updates that
// are of a gradient.
absl::StatusOr<int> ReduceGradients(const std::vector<std::string>& trained,
                                    const std::set<int>& whole_feeds,
                                    const std::optional<std::set<std::string>>& sums,
                                    Averaging averaging, TaskGraph* task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_REDUCE_GRADIENTS_H_
