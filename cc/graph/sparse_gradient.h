// Finds an update's gradient of some rows of its variable. Pure function.
#ifndef TENSORBOW_CC_GRAPH_SPARSE_GRADIENT_H_
#define TENSORBOW_CC_GRAPH_SPARSE_GRADIENT_H_

#include <optional>
#include <vector>

#include "cc/graph/node_inputs.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

struct SparseGradient {
  struct Use {
    tensorflow::Node* node;
    int input;
  };

  NodeOutput values;   // one row each
  NodeOutput indices;  // the numbers of the rows
  // The inputs that take them on behalf of the update.
  std::vector<Use> uses_of_values;
  Use use_of_indices;
};

// Supports TensorFlow's sparse optimiser ops, ops that add to rows or subtract from
// them, and fused Adam (fuse_sparse_adam.h); nullopt for other updates.
std::optional<SparseGradient> SparseGradientOf(tensorflow::Node* update);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_SPARSE_GRADIENT_H_
