// Fuses the ops by which a program updates a variable and its slots element by element:
// in Keras's optimisers, and in those that users write.
//
// The ops are assignments and their computations from the variables, one gradient and
// scalars. TensorBowResourceApplyElements (tf_ops/ops/element_update_op.cc) does the
// same in one pass over memory. Since it is an update with a gradient, it can be fused,
// divided and shared like an optimiser op of TensorFlow's.
#ifndef TENSORBOW_CC_PASSES_TASK_FUSE_ELEMENT_UPDATES_H_
#define TENSORBOW_CC_PASSES_TASK_FUSE_ELEMENT_UPDATES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/graph/task_graph.h"

namespace tensorbow {

// Fuses the updates of `trained`, names of variable nodes. `same_bits`: uses only ops
// whose results have TensorFlow's bits. Leaves a variable alone if
//
// - it is not a resource variable of floating-point numbers and known shape, on a
// CPU, with at least one axis;
// - it, or a slot, is written otherwise than by assignments, in a conditional, or
// without an order with its reads;
// - more than one gradient enters, or the ops are not element by element;
// - something else has to happen between the assignments.
//
// The task graph must have been optimised. Returns the replacing op's name for every
// assignment. Pure function.
absl::StatusOr<std::map<std::string, std::string>> FuseElementUpdates(
    const std::vector<std::string>& trained, bool same_bits, TaskGraph* task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_FUSE_ELEMENT_UPDATES_H_
