// Replaces loops by their iterations, and the elements of tensor lists, on which loops
// keep the values that gradients need, by plain tensors. TensorFlow executes a loop
// with dynamic frames, which costs small ops more time than they take.
#ifndef TENSORBOW_CC_PASSES_LOOPS_UNROLL_LOOPS_H_
#define TENSORBOW_CC_PASSES_LOOPS_UNROLL_LOOPS_H_

#include "absl/status/statusor.h"
#include "cc/graph/task_graph.h"

namespace tensorbow {

// Replaces the loops with kIterationsAttribute. Returns whether there are any.
// `same_bits`: sums keep their order. REQUIRES: the task has one part.
absl::StatusOr<bool> UnrollLoops(bool same_bits, TaskGraph* task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_LOOPS_UNROLL_LOOPS_H_
