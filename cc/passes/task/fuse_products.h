// Makes updates multiply the matrices whose product is their gradient.
//
//   update(w, …, MatMul(a, b))   becomes   update(w, …, a, factor = b)
//
// The gradient of a dense layer's weights is as large as they are. If the update is its
// only user, the fused op (tf_ops/ops/fused_update_ops.cc) computes a few rows of it at
// a time. It applies them while they are in a cache. The gradient is never written to
// memory.
//
//   update(w, …, a, factor = b), MatMul(b, wᵀ)   becomes   update(…) → input_gradient
//
// The gradient of the layer's inputs is a product with the weights before the update.
// The update reads all of them anyway, if the learner does not share its updates with
// others.
//
// On CPUs only. Pure function.
#ifndef TENSORBOW_CC_PASSES_TASK_FUSE_PRODUCTS_H_
#define TENSORBOW_CC_PASSES_TASK_FUSE_PRODUCTS_H_

#include "absl/status/status.h"
#include "cc/graph/task_graph.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tensorbow {

// Returns whether FuseProducts() considers gradients of that shape.
bool CanFuseProduct(const tensorflow::PartialTensorShape& shape);

// Fuses the products. REQUIRES: FuseUpdates() has been called.
absl::Status FuseProducts(bool with_input_gradients, TaskGraph* task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_FUSE_PRODUCTS_H_
