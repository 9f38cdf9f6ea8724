// Fuses the ops of an update by Adam with a gradient of some rows into one op
// (tf_ops/ops/sparse_adam_op.cc). TensorFlow's optimisers write them as
//
//   m: Assign(m·β1), then ScatterAdd(m, rows, m')
//   v: Assign(v·β2), then ScatterAdd(v, rows, v')
//   w: AssignSub(w, m·rate / (√v + ε))
//
// So the update takes one pass over memory. The op keeps the name of the AssignSub. Ops
// are left as they are if something else happens between them. Pure function.
#ifndef TENSORBOW_CC_PASSES_TASK_FUSE_SPARSE_ADAM_H_
#define TENSORBOW_CC_PASSES_TASK_FUSE_SPARSE_ADAM_H_

#include "absl/status/status.h"
#include "cc/graph/task_graph.h"

namespace tensorbow {

// Fuses all such updates. The task graph must have been optimised.
absl::Status FuseSparseAdam(TaskGraph* task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_FUSE_SPARSE_ADAM_H_
