// The laws of row types. They know no op; rules apply them to ops.
//
// - Sums add if their exponents are equal. A same value with exponent e is a sum with e
//   + 1.
// - Multiplying by a value that is the same on all learners adds exponents.
// - A value with e ≠ 0 is rescaled before any function that is not linear.
// - A sum is exchanged before a function that is not linear in it, multiplies two sums,
//   puts
// one beside rows, divides by it, writes it to a variable or decides by it.
// - A contraction over the axis of rows turns rows into a sum.
#ifndef TENSORBOW_CC_ANALYSIS_ROW_TYPES_LAWS_H_
#define TENSORBOW_CC_ANALYSIS_ROW_TYPES_LAWS_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cc/analysis/row_types/rule.h"
#include "cc/analysis/row_types/types.h"

namespace tensorbow {

// Returns the first input that is unknown; null if there is none.
const RowType* FirstUnknown(const Types& types);

// Types an elementwise function of inputs with equal types and exponents: rows if any
// input has rows, on an axis that all share; otherwise `kind`.
RowType Spread(OpView& op, Types in, int exponent = 0, RowKind kind = RowKind::kSame);
// Types an elementwise function that is not linear.
RowType Elementwise(OpView& op, Types in);
RowType Add(OpView& op, Types in);
RowType Multiply(OpView& op, Types in, bool divides);
// Types a choice between inputs 1 and 2 by input 0.
RowType Choose(OpView& op, Types in);

// A factor of a product, and the label of each of its axes, as in einsum.
struct Factor {
  int input;
  RowType type;
  std::string labels;
};
RowType Contract(OpView& op, std::vector<Factor> factors, const std::string& out,
                 std::optional<Sizes> dims = std::nullopt);

// Types an op that works along one axis of its input.
RowType Along(OpView& op, int input, RowType type, std::optional<int64_t> axis);

// Returns the common number of rows of tensors; nullopt if they cannot be equal. If one
// has a fed dimension as an extra factor, that dimension must be 1.
std::optional<Size> CountOfEqual(const std::set<Size>& counts, SizeTable& sizes);

// Returns the type of a value that is one of two.
RowType Join(OpView& op, const RowType& a, const RowType& b);
// Returns the type of `value` (input `i`) in the shape of `dims`.
RowType Filled(OpView& op, RowType value, const Sizes& dims, int i);

// Returns the type of a value that learners have exchanged.
RowType AfterExchange(RowType type);

// Returns zeros of the shape of rows as rows, and other types unchanged.
RowType AsRows(const RowType& type, const SizeTable& sizes);
// Returns the part of the rows; if they fit any part, that of the others.
Part PartAmong(const RowType& type, const Types& others);

// Returns the axis of a tensor of that rank; nullopt if it does not exist.
std::optional<int> AxisOf(std::optional<int64_t> axis, int rank);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_LAWS_H_
