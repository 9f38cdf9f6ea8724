// Computes a sum of products over the iterations of a loop as one product: the gradient
// of weights that every iteration multiplies by.
#ifndef TENSORBOW_CC_PASSES_LOOPS_MERGE_PRODUCTS_H_
#define TENSORBOW_CC_PASSES_LOOPS_MERGE_PRODUCTS_H_

#include "absl/status/statusor.h"
#include "cc/graph/downstream.h"
#include "cc/passes/loops/known_values.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Replaces a chain of AddN over aᵢᵀ · bᵢ by aᵀ · b: a has the rows of all aᵢ below each
// other, b those of all bᵢ. Replaces a chain over the column sums of bᵢ by those of b.
// Leaves the nodes `conditional`. `values` has the shapes of the graph's tensors.
// Returns whether there are any.
absl::StatusOr<bool> MergeProducts(const NodeSet& conditional,
                                   const KnownValues& values, tensorflow::Graph* graph);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_LOOPS_MERGE_PRODUCTS_H_
