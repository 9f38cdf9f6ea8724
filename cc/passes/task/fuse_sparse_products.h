// Makes updates take only the rows of a gradient that are not zero.
//
//   update(w, …, SparseTensorDenseMatMul(x, dy, adjoint_a))
//
// becomes, with (values, rows, shape) of TensorBowSparseProduct(x, dy),
//
//   update(w, …, values, rows = {rows, shape})
//
// The weights w multiplied with a sparse matrix x have a gradient of their own size.
// Its rows are zero except for the columns of x with entries. The fused op
// (tf_ops/ops/fused_update_ops.cc) visits the other rows of w only if that changes
// them: for a correction towards the central model, or for an optimiser whose rule acts
// without a gradient. The numbers stay the same, with one exception: for Adagrad
// without ε, TensorFlow approximates 1 / √x in vectors, which differs in the last bit.
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

// The treatment of updates that are not fused yet. They stay, since there was a reason;
// or they become fused ones without a correction, always or only if no bit changes.
enum class OwnUpdates { kKeep, kFuse, kFuseWithSameBits };

// Fuses the products. REQUIRES: FuseUpdates() and ReduceGradients() are not called
// later.
absl::Status FuseSparseProducts(OwnUpdates own, TaskGraph* task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_FUSE_SPARSE_PRODUCTS_H_
