// Computes, before a task is placed, the values that follow from the shapes of its
// feeds. Pure functions.
//
// The gradient of a mean takes its divisor from the shape of a tensor. On an
// accelerator that shape is in the host's memory, and the divisor must be copied from
// there in the middle of the task.
#ifndef TENSORBOW_CC_PASSES_TASK_FOLD_SHAPES_H_
#define TENSORBOW_CC_PASSES_TASK_FOLD_SHAPES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "cc/graph/task_graph.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tensorbow {

// Replaces such values by constants on the same devices; returns whether there are any.
// `feeds`: the shapes of the task's feeds, in order. REQUIRES: the task has one part.
absl::StatusOr<bool> FoldShapes(const std::vector<tensorflow::TensorShape>& feeds,
                                TaskGraph* task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_FOLD_SHAPES_H_
