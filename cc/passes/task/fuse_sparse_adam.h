// Puts one op (tf_ops/ops/sparse_adam_op.cc) in the place of those with which
// TensorFlow's Adam optimisers update a variable by a gradient of some of its rows:
//
//   m: Assign(m·β1), then ScatterAdd(m, rows, m')
//   v: Assign(v·β2), then ScatterAdd(v, rows, v')
//   w: AssignSub(w, m·rate / (√v + ε))
//
// so that memory is gone through once. The op keeps the name of the AssignSub. Ops
// between which something else happens are left as they are. Pure function.
#ifndef TENSORBOW_CC_PASSES_TASK_FUSE_SPARSE_ADAM_H_
#define TENSORBOW_CC_PASSES_TASK_FUSE_SPARSE_ADAM_H_

#include "absl/status/status.h"
#include "cc/graph/task_graph.h"

namespace tensorbow {

// The task graph must have been optimised.
absl::Status FuseSparseAdam(TaskGraph* task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_FUSE_SPARSE_ADAM_H_
