// Distinct indices of rows, and lookups by them.
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "cc/analysis/row_types/laws.h"
#include "cc/analysis/row_types/rule.h"

namespace tensorbow {

namespace {

using Places = OwnPlaces::Kind;

// Returns the axis of a lookup, which must be constant.
std::optional<int64_t> LookupAxis(const OpView& op, const Types& in) {
  return op.op() == "GatherV2" ? op.Constant(in[2]) : std::optional<int64_t>(0);
}

// Returns the types of the distinct values of distinct values: the same ones.
Types UniqueOfSlots(OpView& op, const RowType& slots) {
  RowType same = Make(RowKind::kSlots), places = Make(RowKind::kOfSlots);
  same.variable = op.path();
  places.variable = slots.variable;
  places.own = {Places::kSlot, kUnknownSize, op.path()};
  return {same, places};
}

}  // namespace

bool MayTakeValuesOfSlots(absl::string_view op) {
  static const auto* const ops = new absl::flat_hash_set<absl::string_view>(
      {"Gather", "GatherV2", "Shape", "UnsortedSegmentSum"});
  return ops->contains(op);
}

std::optional<RowType> TypeLookup(OpView& op, const Types& in) {
  if (in.size() < 2) return std::nullopt;
  const RowType &params = in[0], &at = in[1];
  if (params.is(RowKind::kOfSlots)) {
    const bool by_place = at.is(RowKind::kRows) && at.own.kind == Places::kSlot &&
                          at.own.slots == params.variable &&
                          params.own.kind == Places::kNone;
    if (!by_place || LookupAxis(op, in) != 0 || !at.dims.has_value() ||
        op.Attr<int64_t>("batch_dims", 0) != 0) {
      return op.Unknown("computes with distinct values of each learner's rows");
    }
    Sizes dims = *at.dims;
    dims.insert(dims.end(), params.dims->begin() + 1, params.dims->end());
    return MakeRows(at.axis, at.part, std::move(dims));
  }
  const bool table = params.is(RowKind::kSame) || params.is(RowKind::kHandle);
  if (!at.is(RowKind::kSlots) || !table || params.exponent != 0 ||
      !params.dims.has_value() || params.dims->empty() || LookupAxis(op, in) != 0 ||
      op.Attr<int64_t>("batch_dims", 0) != 0 || !op.IsOnlyLookedUp()) {
    return std::nullopt;
  }
  RowType values = Make(RowKind::kOfSlots, params.dims);
  values.dims->front() = kUnknownSize;
  values.variable = at.variable;
  return values;
}

Types TypeUnique(OpView& op, Types in) {
  Types types;
  if (in[0].is(RowKind::kSlots)) {
    types = UniqueOfSlots(op, in[0]);
  } else if (in[0].is(RowKind::kRows)) {
    RowType slots = Make(RowKind::kSlots);
    slots.variable = op.path();
    RowType places = in[0].WithoutNumbers();
    places.own = {Places::kSlot, kUnknownSize, op.path()};
    types = {slots, places};
  }
  if (!types.empty()) {
    if (op.num_outputs() > 2)
      types.push_back(op.Unknown("counts values on each learner separately"));
    return types;
  }
  const RowType flat = op.Flat(0, in[0]);
  if (flat.unknown()) return {flat};
  RowType same = Make(RowKind::kSame);
  same.of_all_rows = flat.of_all_rows || !in[0].is(RowKind::kSame);
  return {same};
}

}  // namespace tensorbow
