#include "cc/analysis/row_types/types.h"

#include <tuple>

#include "absl/strings/str_cat.h"

namespace tensorbow {

RowType RowType::WithoutNumbers() const {
  RowType type = *this;
  type.numbers.reset();
  return type;
}

RowType RowType::Plain() const {
  RowType type = WithoutNumbers();
  type.own = OwnPlaces();
  return type;
}

RowType RowType::WithDims(std::optional<Sizes> changed) const {
  RowType type = *this;
  type.dims = std::move(changed);
  return type;
}

bool operator==(const RowType& a, const RowType& b) {
  const auto same_reason = [](const RowType& x, const RowType& y) {
    if (x.why == y.why) return true;
    return x.why != nullptr && y.why != nullptr && x.why->node == y.why->node &&
           x.why->text == y.why->text;
  };
  const auto same_element = [](const RowType& x, const RowType& y) {
    if (x.element == y.element) return true;
    return x.element != nullptr && y.element != nullptr && *x.element == *y.element;
  };
  const auto key = [](const RowType& t) {
    return std::tie(t.kind, t.exponent, t.axis, t.part, t.dims, t.numbers,
                    t.of_all_rows, t.uniform, t.own, t.derivative, t.blocks, t.axes,
                    t.perhaps, t.variable);
  };
  return key(a) == key(b) && same_reason(a, b) && same_element(a, b);
}

RowType Make(RowKind kind, std::optional<Sizes> dims, int exponent) {
  RowType type;
  type.kind = kind;
  type.dims = std::move(dims);
  type.exponent = exponent;
  return type;
}

RowType MakeRows(int axis, Part part, std::optional<Sizes> dims, int exponent) {
  RowType type = Make(RowKind::kRows, std::move(dims), exponent);
  type.axis = axis;
  type.part = part;
  return type;
}

namespace {

// " times (rows of all / rows of the learner)^e"
std::string Scale(int exponent) {
  return exponent == 0 ? "" : absl::StrCat(", scaled by r^", exponent);
}

}  // namespace

std::string Describe(const RowReason& reason) {
  return absl::StrCat(reason.op, " '", reason.node, "' ", reason.text);
}

std::string Describe(const RowType& type, const SizeTable& sizes) {
  switch (type.kind) {
    case RowKind::kUntyped:
      return "not computed";
    case RowKind::kUnknown:
      return absl::StrCat("unknown: ", Describe(*type.why));
    case RowKind::kSame:
      return absl::StrCat("same on all learners", Scale(type.exponent));
    case RowKind::kRows:
      return absl::StrCat("rows on axis ", type.axis,
                          type.part == kFedRows || type.part == kAnyRows
                              ? ""
                              : absl::StrCat(" (", sizes.ToString(type.part), ")"),
                          Scale(type.exponent));
    case RowKind::kSum:
      if (type.exponent == 0) return "sum over rows";
      if (type.exponent == 1) return "mean over rows";
      return absl::StrCat("sum over rows", Scale(type.exponent));
    case RowKind::kMax:
      return "maximum over rows";
    case RowKind::kMin:
      return "minimum over rows";
    case RowKind::kAll:
      return "all rows agree";
    case RowKind::kAny:
      return "any row agrees";
    case RowKind::kZero:
      return "zero";
    case RowKind::kHandle:
      return "resource";
    case RowKind::kSizes:
      return "sizes";
    case RowKind::kAxes:
      return "axes";
    case RowKind::kList:
      return type.element == nullptr
                 ? "empty list"
                 : absl::StrCat("list: ", Describe(*type.element, sizes));
    case RowKind::kSlots:
      return "distinct indices";
    case RowKind::kSlotted:
      return "sum over rows by distinct index";
    case RowKind::kOfSlots:
      return "values of distinct indices";
    case RowKind::kBlocks:
      return absl::StrCat("rows and others on axis ", type.axis);
  }
  return "";
}

}  // namespace tensorbow
