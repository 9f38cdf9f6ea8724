// Ops that mix rows. Given all rows, they compute the same on every learner, which
// takes its own rows again.
#ifndef TENSORBOW_CC_ANALYSIS_ROW_TYPES_ALL_ROWS_H_
#define TENSORBOW_CC_ANALYSIS_ROW_TYPES_ALL_ROWS_H_

#include <optional>

#include "cc/analysis/row_types/rule.h"
#include "cc/analysis/row_types/types.h"

namespace tensorbow {

// Returns whether learners can compute the op from all rows in the place of their own.
bool MayTakeAllRows(const OpView& op);

// Returns the inputs with a learner's own rows of those that have all rows beside rows;
// nullopt if there are none. Records the needs.
std::optional<Types> TakeOwnRows(OpView& op, Types in);

// Returns the inputs with all rows of those that have a learner's; nullopt if there are
// none, or others that learners cannot exchange. Records the needs.
std::optional<Types> TakeAllRows(OpView& op, Types in);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_ALL_ROWS_H_
