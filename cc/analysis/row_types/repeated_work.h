// Products of weights and all rows, which every learner would repeat.
#ifndef TENSORBOW_CC_ANALYSIS_ROW_TYPES_REPEATED_WORK_H_
#define TENSORBOW_CC_ANALYSIS_ROW_TYPES_REPEATED_WORK_H_

#include <memory>

#include "cc/analysis/row_types/row_types.h"
#include "cc/analysis/row_types/typed_graph.h"

namespace tensorbow {

// Returns the reason not to divide a run whose learners would repeat the model; null if
// they share its work. `types`: of the run's graph.
std::shared_ptr<const RowReason> FindRepeatedWork(const TypedGraph& graph,
                                                  const RowTypes& types);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_REPEATED_WORK_H_
