// Has updates take the rows of a gradient that are not zero.
//
//   update(w, …, SparseTensorDenseMatMul(x, dy, adjoint_a))
//
// becomes, with (values, rows, shape) of TensorBowSparseProduct(x, dy),
//
//   update(w, …, values, rows = {rows, shape})
//
// The gradient of weights w that a sparse matrix x is multiplied with is as large as
// they are, and has a row other than zero for those columns only that x has entries in.
// The fused op (tf_ops/ops/fused_update_ops.cc) goes through all of w only where that
// changes something: for a correction towards the central model, or for an optimiser
// whose rule does something without a gradient. The numbers stay the same, but for
// those of Adagrad without ε, where TensorFlow approximates 1 / √x by vectors: the last
// bit.
//
// Other products with a sparse matrix get a kernel that is several times as fast as
// TensorFlow's, with the same bits.
//
// On CPUs only. Pure function.
#ifndef TENSORBOW_CC_PASSES_TASK_FUSE_SPARSE_PRODUCTS_H_
#define TENSORBOW_CC_PASSES_TASK_FUSE_SPARSE_PRODUCTS_H_

#include "absl/status/status.h"
#include "cc/graph/task_graph.h"

namespace tensorbow {

// What becomes of updates that are not fused: nothing, as they have been left alone for
// a reason; they become fused ones without a correction; or they do, unless that would
// change a bit.
enum class OwnUpdates { kKeep, kFuse, kFuseWithSameBits };

// REQUIRES: FuseUpdates() and ReduceGradients() have been called, if they are.
absl::Status FuseSparseProducts(OwnUpdates own, TaskGraph* task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_FUSE_SPARSE_PRODUCTS_H_
