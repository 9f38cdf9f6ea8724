// The laws of row types. They know no op; rules apply them to ops.
//
//   sums add if their exponents are equal; same with e is a sum with e + 1
//   multiplying by a value that is the same on all learners adds exponents
//   a rescale comes before whatever is not linear and sees e ≠ 0
//   an exchange comes before whatever is not linear in a sum, multiplies two sums, sets
//   one beside rows, divides by it, writes it to a variable or decides by it
//   a contraction over the axis of rows makes rows to a sum
#ifndef TENSORBOW_CC_ANALYSIS_ROW_TYPES_LAWS_H_
#define TENSORBOW_CC_ANALYSIS_ROW_TYPES_LAWS_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cc/analysis/row_types/rule.h"
#include "cc/analysis/row_types/types.h"

namespace tensorbow {

// The first input that is unknown; null if there is none.
const RowType* FirstUnknown(const Types& types);

// Types an elementwise function whose inputs agree in type and exponent:
// rows where any input has rows, on an axis that all share. `kind`: else.
RowType Spread(OpView& op, Types in, int exponent = 0, RowKind kind = RowKind::kSame);
// Likewise for a function that is not linear.
RowType Elementwise(OpView& op, Types in);
RowType Add(OpView& op, Types in);
RowType Multiply(OpView& op, Types in, bool divides);
// A choice between inputs 1 and 2 by input 0.
RowType Choose(OpView& op, Types in);

// A factor of a product, and the label of each of its axes, as einsum writes it.
struct Factor {
  int input;
  RowType type;
  std::string labels;
};
RowType Contract(OpView& op, std::vector<Factor> factors, const std::string& out,
                 std::optional<Sizes> dims = std::nullopt);

// An op that works along one axis of its input.
RowType Along(OpView& op, int input, RowType type, std::optional<int64_t> axis);

// The number of rows of tensors that must have as many; nullopt if they cannot. Where
// one has a fed dimension as a factor more, that dimension has to be 1.
std::optional<Size> CountOfEqual(const std::set<Size>& counts, SizeTable& sizes);

// The type of a value that is one of two.
RowType Join(OpView& op, const RowType& a, const RowType& b);
// `value` (input `i`) in the shape of `dims`.
RowType Filled(OpView& op, RowType value, const Sizes& dims, int i);

// The type of a value that learners have exchanged.
RowType AfterExchange(RowType type);

// Zeros of the shape of rows are rows where what is made of them is not zero.
RowType AsRows(const RowType& type, const SizeTable& sizes);
// The part of rows that may be of any is that of the others.
Part PartAmong(const RowType& type, const Types& others);

// An axis of a tensor of that rank; nullopt if it has none such.
std::optional<int> AxisOf(std::optional<int64_t> axis, int rank);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_LAWS_H_
