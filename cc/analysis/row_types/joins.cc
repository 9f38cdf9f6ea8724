// The laws of values that are one of two values, or fill a shape.
#include <vector>

#include "cc/analysis/row_types/laws.h"

namespace tensorbow {

namespace {

// Returns the dims on which both agree; nullopt if their ranks differ.
std::optional<Sizes> CommonDims(const RowType& a, const RowType& b) {
  if (!a.dims.has_value() || !b.dims.has_value() || a.rank() != b.rank()) {
    return std::nullopt;
  }
  Sizes dims = *a.dims;
  for (int d = 0; d < a.rank(); ++d) {
    if (dims[d] != (*b.dims)[d]) dims[d] = kUnknownSize;
  }
  return dims;
}

RowType JoinZero(OpView& op, const RowType& zero, const RowType& other) {
  if (other.is(RowKind::kRows) && zero.dims.has_value() && other.dims.has_value() &&
      zero.rank() == other.rank()) {
    const auto size = op.sizes().Number((*zero.dims)[other.axis]);
    if (size.value_or(1) > 1) {
      return op.Unknown(absl::StrCat("is either rows or a constant of size ", *size));
    }
  }
  RowType joined = other.WithoutNumbers();
  if (!other.is(RowKind::kRows)) joined.dims = CommonDims(zero, other);
  return joined;
}

}  // namespace

RowType Join(OpView& op, const RowType& a, const RowType& b) {
  if (!a.typed()) return b;
  if (!b.typed() || a == b) return a;
  if (a.unknown()) return a;
  if (b.unknown()) return b;
  if (a.is(RowKind::kList) && b.is(RowKind::kList)) {
    // A flow of gradients begins as one of the array itself.
    if (a.derivative != b.derivative) return a.derivative > b.derivative ? a : b;
    RowType joined = a;
    joined.dims.reset();
    if (a.element == nullptr) {
      joined.element = b.element;
    } else if (b.element != nullptr) {
      joined.element = std::make_shared<RowType>(Join(op, *a.element, *b.element));
    }
    return joined;
  }
  if (a.is(RowKind::kZero) && b.is(RowKind::kZero)) {
    RowType joined = a;
    if (a.dims != b.dims) joined.dims = CommonDims(a, b);
    joined.uniform = std::min(a.uniform, b.uniform);
    return joined;
  }
  if (a.is(RowKind::kZero)) return JoinZero(op, a, b);
  if (b.is(RowKind::kZero)) return JoinZero(op, b, a);
  if (a.kind == b.kind && a.axis == b.axis && a.part == b.part &&
      (a.is(RowKind::kSame) || a.is(RowKind::kSum) || a.is(RowKind::kRows))) {
    if (a.exponent != b.exponent)
      return op.Unknown("is scaled differently by the branches of a condition");
    if (!(a.own == b.own))
      return op.Unknown("has row numbers in one branch of a condition only");
    RowType joined = a;
    joined.dims = CommonDims(a, b);
    if (a.numbers != b.numbers) joined.numbers.reset();
    joined.of_all_rows |= b.of_all_rows;
    joined.uniform = std::min(a.uniform, b.uniform);
    return joined;
  }
  for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
    if (x.is(RowKind::kSame) && y.is(RowKind::kSum) && y.exponent == x.exponent + 1) {
      return y.WithDims(CommonDims(a, b));
    }
    if (x.is(RowKind::kSizes) && (y.is(RowKind::kSizes) || y.is(RowKind::kSame))) {
      return Make(RowKind::kSizes, x.dims);
    }
  }
  return op.Unknown(
      absl::StrCat("is ", Describe(a, op.sizes()), ", or ", Describe(b, op.sizes())));
}

RowType Filled(OpView& op, RowType value, const Sizes& dims, int i) {
  std::vector<int> axes;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (op.sizes().HasRows(dims[d])) axes.push_back(static_cast<int>(d));
  }
  if (value.unknown()) return value;
  if (value.is(RowKind::kZero) || (axes.empty() && !op.sizes().MayHaveRows(dims))) {
    value.dims = dims;
    if (!dims.empty()) value.numbers.reset();
    value.uniform = dims.empty() ? Uniform::kNo : Uniform::kEverywhere;
    return value;
  }
  if (axes.empty()) return op.Unknown("has an unknown size");
  if (axes.size() > 1) return op.Unknown("has rows on two axes");
  const std::optional<Part> part = op.sizes().PartOf(dims[axes[0]]);
  if (!part.has_value())
    return op.Unknown("has a size that adds the number of rows to other numbers");
  value = op.Exchanged(i, value);
  if (value.unknown()) return value;
  if (!value.is(RowKind::kSame))
    return op.Unknown("fills rows with values that differ between learners");
  RowType rows = MakeRows(axes[0], *part, dims, value.exponent);
  rows.uniform = Uniform::kEverywhere;
  return rows;
}

}  // namespace tensorbow
