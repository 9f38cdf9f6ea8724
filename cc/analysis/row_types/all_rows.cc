#include "cc/analysis/row_types/all_rows.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "cc/analysis/row_types/laws.h"
#include "cc/graph/op_facts.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace {

namespace tf = ::tensorflow;

using Need = RowNeed::Kind;

bool CanBeGathered(tf::DataType type) {
  return tf::DataTypeIsFloating(type) || tf::DataTypeIsInteger(type) ||
         type == tf::DT_BOOL;
}

std::optional<Sizes> AllOf(SizeTable& sizes, const std::optional<Sizes>& own) {
  if (!own.has_value()) return std::nullopt;
  Sizes all;
  for (Size size : *own) {
    all.push_back(sizes.OfAll(size));
    if (size.known() && !all.back().known()) return std::nullopt;
  }
  return all;
}

// Returns whether the learners' rows, one after the other, are all rows, and each
// learner has its share of them.
bool AreFedRows(const RowType& type, const SizeTable& sizes) {
  return type.is(RowKind::kRows) && type.dims.has_value() &&
         (type.part == kFedRows || type.part == kAnyRows) &&
         sizes.PartOf((*type.dims)[type.axis]) == kFedRows;
}

// Returns whether the inputs of the op must have equal sizes on the axis of rows, or 1.
bool WantsEqualSizes(absl::string_view op) {
  static const auto* const ops =
      new absl::flat_hash_set<absl::string_view>({"Add",
                                                  "AddN",
                                                  "AddV2",
                                                  "BatchMatMulV2",
                                                  "EluGrad",
                                                  "InvGrad",
                                                  "LeakyReluGrad",
                                                  "MatMul",
                                                  "Maximum",
                                                  "Minimum",
                                                  "Mul",
                                                  "RealDiv",
                                                  "ReciprocalGrad",
                                                  "Relu6Grad",
                                                  "ReluGrad",
                                                  "RsqrtGrad",
                                                  "Select",
                                                  "SelectV2",
                                                  "SeluGrad",
                                                  "SigmoidGrad",
                                                  "SoftplusGrad",
                                                  "SoftsignGrad",
                                                  "SqrtGrad",
                                                  "SquaredDifference",
                                                  "Sub",
                                                  "TanhGrad"});
  return ops->contains(op);
}

// Returns the only axis that has all rows, or may have them since the op needs `all`
// there; nullopt if there is none, or if there are several.
std::optional<int> AxisOfAll(const OpView& op, const RowType& type, Size all,
                             const SizeTable& sizes) {
  if (!type.is(RowKind::kSame) || type.exponent != 0 || !type.dims.has_value()) {
    return std::nullopt;
  }
  std::optional<int> axis;
  for (int d = 0; d < type.rank(); ++d) {
    const Size size = (*type.dims)[d];
    if (!size.known()) return std::nullopt;
    if (!sizes.CountsAll(size)) continue;
    const bool fits = size == all || WantsEqualSizes(op.op());
    if (axis.has_value() || !fits) return std::nullopt;
    axis = d;
  }
  return axis;
}

// Returns the type of input `i` with all rows; nullopt if it cannot have them.
std::optional<RowType> OfAllRows(OpView& op, int i, RowType type) {
  SizeTable& sizes = op.sizes();
  type = AsRows(type, sizes);
  const std::optional<Sizes> dims = AllOf(sizes, type.dims);
  RowType all = Make(RowKind::kSame, dims);
  all.of_all_rows = true;
  if (type.is(RowKind::kRows)) {
    const bool computed = type.own.kind != OwnPlaces::Kind::kNone;
    if (!AreFedRows(type, sizes) || !dims.has_value() ||
        !CanBeGathered(op.input_type(i))) {
      return std::nullopt;
    }
    const RowNeed need = {computed ? Need::kWhole : Need::kAllRows,
                          op.path(),
                          i,
                          type.exponent,
                          type.kind,
                          type.axis};
    op.Need(need);
    return all;
  }
  if (type.is(RowKind::kSizes)) {
    all.numbers = AllOf(sizes, type.numbers);
    if (!all.numbers.has_value()) return std::nullopt;
    op.Need(Need::kWhole, i, type);
    return all;
  }
  if (type.is(RowKind::kAxes)) {  // they follow from sizes
    op.Need(Need::kWhole, i, type);
    return type;
  }
  if (type.is(RowKind::kHandle)) return std::nullopt;
  const std::optional<Sizes> numbers = AllOf(sizes, type.numbers);
  type = op.Flat(i, std::move(type));
  if (!type.is(RowKind::kSame) && !type.is(RowKind::kZero)) return std::nullopt;
  if (!type.numbers.has_value()) type.numbers = numbers;
  return type;
}

}  // namespace

bool MayTakeAllRows(const OpView& op) {
  const tf::Node& node = op.node();
  if (node.IsControlFlow() || node.IsFunctionCall() || IsWrite(op.op())) return false;
  // Users of a list with all rows would expect another length.
  for (tf::DataType type : node.input_types()) {
    if (type == tf::DT_VARIANT || type == tf::DT_RESOURCE) return false;
  }
  for (tf::DataType type : node.output_types()) {
    if (type == tf::DT_VARIANT || type == tf::DT_RESOURCE) return false;
  }
  return (!node.op_def().is_stateful() ||
          absl::StrContains(op.op(), "CandidateSampler")) &&
         !op.MayNotBeExecuted();
}

std::optional<Types> TakeOwnRows(OpView& op, Types in) {
  SizeTable& sizes = op.sizes();
  Size own = kUnknownSize;  // the number of a learner's rows in the op
  for (const RowType& type : in) {
    if (type.own.kind != OwnPlaces::Kind::kNone) return std::nullopt;
    if (AreFedRows(type, sizes)) own = (*type.dims)[type.axis];
    for (Size number : type.numbers.value_or(Sizes{})) {
      if (sizes.PartOf(number) == kFedRows) own = number;
    }
  }
  bool takes = false;
  for (size_t i = 0; own.known() && i < in.size(); ++i) {
    const std::optional<int> axis = AxisOfAll(op, in[i], sizes.OfAll(own), sizes);
    if (!axis.has_value() || !CanBeGathered(op.input_type(static_cast<int>(i)))) {
      continue;
    }
    op.Need({Need::kOwnRows, op.path(), static_cast<int>(i), 0, in[i].kind, *axis});
    Sizes dims = *in[i].dims;
    dims[*axis] = own;
    in[i] = MakeRows(*axis, kFedRows, std::move(dims));
    takes = true;
  }
  if (!takes) return std::nullopt;
  return in;
}

std::optional<Types> TakeAllRows(OpView& op, Types in) {
  bool takes = false;
  for (size_t i = 0; i < in.size(); ++i) {
    takes |= AsRows(in[i], op.sizes()).is(RowKind::kRows) ||
             in[i].is(RowKind::kSizes) ||
             (in[i].is(RowKind::kSame) && in[i].exponent != 0);
    std::optional<RowType> all = OfAllRows(op, static_cast<int>(i), in[i]);
    if (!all.has_value()) return std::nullopt;
    in[i] = *std::move(all);
  }
  if (!takes) return std::nullopt;
  return in;
}

}  // namespace tensorbow
