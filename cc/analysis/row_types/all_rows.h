// Ops that mix rows. Given all rows, every learner computes the same, and then
// continues with its own rows.
#ifndef TENSORBOW_CC_ANALYSIS_ROW_TYPES_ALL_ROWS_H_
#define TENSORBOW_CC_ANALYSIS_ROW_TYPES_ALL_ROWS_H_

#include <optional>

#include "cc/analysis/row_types/rule.h"
#include "cc/analysis/row_types/types.h"

namespace tensorbow {

// Returns whether learners can compute the op from all rows instead of their own.
bool MayTakeAllRows(const OpView& op);

// Returns the inputs with all rows reduced to the learner's own, if other inputs are
// rows; nullopt if there are none. Records the needs.
std::optional<Types> TakeOwnRows(OpView& op, Types in);

// Returns the inputs with a learner's rows extended to all rows; nullopt if there are
// none, or others that learners cannot exchange. Records the needs.
std::optional<Types> TakeAllRows(OpView& op, Types in);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_ALL_ROWS_H_
