// Arithmetic on two numbers of elements, by the name of the op.
#ifndef TENSORBOW_CC_ANALYSIS_ROW_TYPES_NUMBER_ARITHMETIC_H_
#define TENSORBOW_CC_ANALYSIS_ROW_TYPES_NUMBER_ARITHMETIC_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "cc/analysis/row_types/sizes.h"

namespace tensorbow {

bool IsArithmetic(absl::string_view op);

// Returns the result of an arithmetic op; unknown if it is no polynomial.
Size Arithmetic(SizeTable& sizes, absl::string_view op, Size a, Size b);

// Returns the result of a comparison; nullopt if the op is none.
std::optional<bool> Compare(absl::string_view op, int64_t a, int64_t b);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_NUMBER_ARITHMETIC_H_
