// Has updates multiply the matrices of which their gradient is the product.
//
//   update(w, …, MatMul(a, b))   becomes   update(w, …, a, factor = b)
//
// The gradient of a dense layer's weights is as large as they are. Where the update is
// its only user, the fused op (tf_ops/ops/fused_update_ops.cc) computes it a few rows
// at a time and uses them up while they are in a cache, so that it is never written to
// memory nor read from there.
//
//   update(w, …, a, factor = b), MatMul(b, wᵀ)   becomes   update(…) → input_gradient
//
// The gradient of the layer's inputs is a product with the weights as they are before
// the update, which reads them anyway: all of them, if the learner does not share its
// updates with others.
//
// On CPUs only. Pure function.
#ifndef TENSORBOW_CC_PASSES_TASK_FUSE_PRODUCTS_H_
#define TENSORBOW_CC_PASSES_TASK_FUSE_PRODUCTS_H_

#include "absl/status/status.h"
#include "cc/graph/task_graph.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tensorbow {

// Whether FuseProducts() looks at gradients of that shape.
bool CanFuseProduct(const tensorflow::PartialTensorShape& shape);

// REQUIRES: FuseUpdates() has been called.
absl::Status FuseProducts(bool with_input_gradients, TaskGraph* task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_FUSE_PRODUCTS_H_
