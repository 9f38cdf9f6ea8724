// Finds loops whose results TensorFlow loses.
#ifndef TENSORBOW_CC_ANALYSIS_ROW_TYPES_LOST_RESULTS_H_
#define TENSORBOW_CC_ANALYSIS_ROW_TYPES_LOST_RESULTS_H_

#include <memory>

#include "cc/analysis/row_types/row_types.h"
#include "cc/analysis/row_types/typed_graph.h"

namespace tensorbow {

// Returns the exit of a loop that depends on an iteration and on the end of iterations
// at once; null if there is none. TensorFlow silently executes nothing behind it, where
// learners would wait. Control dependencies around gradients of loops make such exits.
std::shared_ptr<const RowReason> FindLostResult(const TypedGraph& graph);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_LOST_RESULTS_H_
