// Computes a sum of products over the iterations of a loop as one product: the gradient
// of weights that every iteration multiplies by.
#ifndef TENSORBOW_CC_PASSES_LOOPS_MERGE_PRODUCTS_H_
#define TENSORBOW_CC_PASSES_LOOPS_MERGE_PRODUCTS_H_

#include "absl/status/statusor.h"
#include "cc/graph/downstream.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Replaces a chain of AddN that adds up aᵢᵀ · bᵢ by aᵀ · b, with the rows of all aᵢ and
// of all bᵢ below each other. Replaces the sums over the rows of all bᵢ likewise.
// Leaves the nodes `conditional`. Returns whether there are any.
absl::StatusOr<bool> MergeProducts(const NodeSet& conditional,
                                   tensorflow::Graph* graph);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_LOOPS_MERGE_PRODUCTS_H_
