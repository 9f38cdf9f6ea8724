// Ops that reduce axes, or work along one.
#include <algorithm>

#include "cc/analysis/row_types/laws.h"
#include "cc/analysis/row_types/rule.h"

namespace tensorbow {

namespace {

using Need = RowNeed::Kind;

bool Has(const std::vector<int>& axes, int axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// Fills `sure` and `perhaps` with the axes that `type` names for a tensor of that rank.
// Returns false if they are not known.
bool AxesOf(const OpView& op, const RowType& type, int rank, std::vector<int>* sure,
            std::vector<int>* perhaps) {
  if (type.is(RowKind::kAxes)) {
    *sure = type.axes;
    *perhaps = type.perhaps;
    return true;
  }
  if (!type.numbers.has_value()) return false;
  for (Size number : *type.numbers) {
    const std::optional<int> axis = AxisOf(op.sizes().Number(number), rank);
    if (!axis.has_value()) return false;
    sure->push_back(*axis);
  }
  return true;
}

// Returns `type` without the axis of rows, or with 1 instead of it.
RowType OfReducedRows(OpView& op, const RowType& type, std::optional<Sizes> dims) {
  const bool sums = op.is({"Sum", "Mean"});
  const bool same = type.uniform != Uniform::kNo && op.sizes().IsShared(type.part);
  if (same && (sums || op.is({"Max", "Min"}))) {  // a multiple of one row
    return Make(RowKind::kSame, dims, type.exponent - (op.op() == "Sum" ? 1 : 0));
  }
  if (op.op() == "Sum") return Make(RowKind::kSum, dims, type.exponent);
  if (op.op() == "Mean") {
    if (op.sizes().IsShared(type.part)) {
      return Make(RowKind::kSum, dims, type.exponent + 1);
    }
    op.Need(Need::kCount, 0, type);
    return Make(RowKind::kSum, dims, type.exponent);
  }
  if (op.op() == "Prod") return op.Unknown("multiplies the rows with each other");
  if (op.op() == "EuclideanNorm") return op.Unknown("takes the norm of all rows");
  const RowType flat = op.Rescaled(0, type);
  const RowKind kind = op.op() == "Max"   ? RowKind::kMax
                       : op.op() == "Min" ? RowKind::kMin
                       : op.op() == "All" ? RowKind::kAll
                                          : RowKind::kAny;
  return Make(kind, dims, flat.exponent);
}

Types Reduce(OpView& op, Types in) {
  RowType type = in[0];
  const bool linear = op.is({"Sum", "Mean"}), orders = op.is({"Max", "Min"});
  if (type.is(RowKind::kSizes) || (!linear && !orders) || (linear && type.extreme()) ||
      (orders && type.partial())) {
    type = op.Flat(0, type);
  }
  if (type.unknown()) return {type};
  if (!type.is(RowKind::kRows)) {
    if (type.is(RowKind::kSizes))
      return {op.Unknown("reduces an axis of unknown size")};
    type = type.Plain();
    type.dims.reset();
    type.uniform = Uniform::kNo;
    return {type};
  }
  if (!type.dims.has_value()) return {op.Unknown("reduces a tensor of unknown rank")};
  std::vector<int> sure, perhaps;
  if (!AxesOf(op, in[1], type.rank(), &sure, &perhaps)) {
    return {op.Unknown("reduces unknown axes")};
  }
  const bool keeps = op.Flag("keep_dims");
  const bool perhaps_before = std::any_of(perhaps.begin(), perhaps.end(),
                                          [&](int axis) { return axis < type.axis; });
  if (Has(perhaps, type.axis) || (perhaps_before && !keeps)) {
    return {op.Unknown("reduces unknown axes, the rows perhaps")};
  }
  std::optional<Sizes> dims;
  if (perhaps.empty()) {
    dims.emplace();
    for (int d = 0; d < type.rank(); ++d) {
      if (!Has(sure, d)) dims->push_back((*type.dims)[d]);
      if (Has(sure, d) && keeps) dims->push_back(kOneSize);
    }
  }
  if (Has(sure, type.axis)) return {OfReducedRows(op, type, dims)};
  const auto before = std::count_if(sure.begin(), sure.end(),
                                    [&](int axis) { return axis < type.axis; });
  const int axis = keeps ? type.axis : type.axis - static_cast<int>(before);
  if (!dims.has_value() && !op.OutputShape(0).unknown_rank()) {
    dims.emplace(op.OutputShape(0).dims(), kUnknownSize);
    (*dims)[axis] = (*type.dims)[type.axis];
  }
  RowType reduced = type.Plain();
  reduced.axis = axis;
  reduced.dims = std::move(dims);
  return {reduced};
}

Types L2Loss(OpView& op, Types in) {
  if (in[0].is(RowKind::kRows)) {
    return {Make(RowKind::kSum, Sizes{}, 2 * in[0].exponent)};
  }
  const RowType flat = op.Flat(0, in[0]);
  if (flat.unknown()) return {flat};
  RowType loss =
      Make(flat.is(RowKind::kSame) ? RowKind::kSame : RowKind::kZero, Sizes{});
  loss.of_all_rows = flat.of_all_rows;
  return {loss};
}

Types BiasAddGrad(OpView& op, Types in) {
  RowType type = in[0];
  if (!type.is(RowKind::kRows)) return {type.Plain().WithDims(std::nullopt)};
  if (!type.dims.has_value()) return {op.Unknown("has an input of unknown rank")};
  const bool last = op.Attr<std::string>("data_format", "NHWC") == "NHWC";
  const int channels = last ? type.rank() - 1 : 1;
  if (type.axis == channels) return {op.Unknown("has the rows as channels")};
  return {Make(RowKind::kSum, Sizes{(*type.dims)[channels]}, type.exponent)};
}

Types Softmax(OpView& op, Types in) { return {Along(op, 0, in[0], -1)}; }

Types Roll(OpView& op, Types in) {
  for (int i : {1, 2}) {
    if (!in[i].is(RowKind::kSame))
      return {op.Unknown("shifts by values that differ between learners")};
  }
  return {Along(op, 0, in[0], op.Constant(in[2]))};
}

Types Cumulate(OpView& op, Types in) {
  const std::optional<int64_t> axis = op.Constant(in[1]);
  RowType& type = in[0];
  if (op.op() == "Cumsum" && type.is(RowKind::kRows) && type.dims.has_value()) {
    const std::optional<int> along = AxisOf(axis, type.rank());
    if (along.has_value() && *along != type.axis) return {type.Plain()};  // linear
  }
  return {Along(op, 0, type, axis)};
}

Types ArgMax(OpView& op, Types in) {
  RowType type = Along(op, 0, in[0], op.Constant(in[1]));
  if (!type.is(RowKind::kRows)) return {type.WithDims(std::nullopt)};
  const int axis = *AxisOf(op.Constant(in[1]), type.rank());
  Sizes dims = *type.dims;
  dims.erase(dims.begin() + axis);
  return {MakeRows(type.axis - (axis < type.axis ? 1 : 0), type.part, dims)};
}

Types TopK(OpView& op, Types in) {
  RowType type = Along(op, 0, in[0], -1);
  if (type.is(RowKind::kRows)) type.dims->back() = kUnknownSize;
  return {type};
}

}  // namespace

void AddReductionRules(RuleTable* rules) {
  rules->Set({"All", "Any", "EuclideanNorm", "Max", "Mean", "Min", "Prod", "Sum"},
             &Reduce);
  rules->Set({"L2Loss"}, &L2Loss);
  rules->Set({"BiasAddGrad"}, &BiasAddGrad);
  rules->Set({"LogSoftmax", "Softmax"}, &Softmax);
  rules->Set({"Roll"}, &Roll);
  rules->Set({"Cumprod", "Cumsum", "CumulativeLogsumexp"}, &Cumulate);
  rules->Set({"ArgMax", "ArgMin"}, &ArgMax);
  rules->Set({"NthElement", "TopK", "TopKV2"}, &TopK);
}

}  // namespace tensorbow
