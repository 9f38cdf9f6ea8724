// Evaluates an op on numbers of elements.
#ifndef TENSORBOW_CC_ANALYSIS_ROW_TYPES_NUMBER_OP_H_
#define TENSORBOW_CC_ANALYSIS_ROW_TYPES_NUMBER_OP_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cc/analysis/row_types/number_arrays.h"
#include "cc/analysis/row_types/rule.h"

namespace tensorbow {

// The length limit of arrays of numbers.
constexpr int64_t kMostNumbers = 64;

// Returns the types of the op's outputs for these inputs; nullopt if they do not follow
// from numbers.
std::optional<Types> EvaluateNumbers(OpView& op, std::vector<Numbers> in);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_NUMBER_OP_H_
