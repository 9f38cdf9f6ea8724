// Ops that gather, scatter and select by indices.
#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/analysis/row_types/laws.h"
#include "cc/analysis/row_types/rule.h"

namespace tensorbow {

namespace {

using Places = OwnPlaces::Kind;

RowType Same(const Types& of) {
  RowType same = Make(RowKind::kSame);
  for (const RowType& type : of) same.of_all_rows |= type.of_all_rows;
  return same;
}

bool Is(const RowType& type, std::initializer_list<Places> kinds) {
  return std::count(kinds.begin(), kinds.end(), type.own.kind) > 0;
}

// Returns the rows that the indices count; nullopt if they also count others.
std::optional<Part> Numbered(const OpView& op, const RowType& type) {
  return op.sizes().PartOf(type.own.of);
}

Types SetOperation(OpView& op, Types in) {
  in = op.Flats(std::move(in));
  if (const RowType* unknown = FirstUnknown(in)) return {*unknown};
  Types rows;
  for (const RowType& type : in) {
    if (type.is(RowKind::kRows)) rows.push_back(type);
  }
  if (rows.empty()) return {Same(in)};
  if (rows.size() < 2 || rows[0].axis != 0 || rows[1].axis != 0 ||
      rows[0].part != rows[1].part || (*rows[0].dims)[0] != (*rows[1].dims)[0]) {
    return {op.Unknown("has rows where none are expected")};
  }
  SizeTable& sizes = op.sizes();
  const Size count = (*rows[0].dims)[0];
  const int rank = rows[0].rank();
  const Part part = sizes.Chosen(op.path());
  const Size chosen = sizes.RowsOf(part);
  RowType at = MakeRows(0, part, Sizes{chosen, sizes.Constant(rank)});
  at.own = {Places::kColumn, count, ""};
  RowType shape = Make(RowKind::kSizes, Sizes{sizes.Constant(rank)});
  shape.numbers = Sizes(rank, kUnknownSize);
  (*shape.numbers)[0] = count;
  return {at, MakeRows(0, part, Sizes{chosen}), shape};
}

Types SetSize(OpView& op, Types in) {
  const Sizes* const shape = OpView::Numbers(in[2]);
  if (in[0].own.kind != Places::kColumn || shape == nullptr || shape->empty() ||
      (*shape)[0] != in[0].own.of || !Numbered(op, in[0]).has_value()) {
    return {op.Unknown("needs a set for each row")};
  }
  Sizes dims(shape->size() - 1, kUnknownSize);
  dims[0] = in[0].own.of;
  return {MakeRows(0, *Numbered(op, in[0]), dims)};
}

Types Range(OpView& op, Types in) {
  const Sizes* const limit = OpView::Numbers(in[1]);
  if (limit != nullptr && limit->size() == 1 && op.sizes().HasRows((*limit)[0]) &&
      op.Constant(in[0]) == 0 && op.Constant(in[2]) == 1) {
    const std::optional<Part> part = op.sizes().PartOf((*limit)[0]);
    if (!part.has_value())
      return {op.Unknown("counts rows together with other values")};
    RowType places = MakeRows(0, *part, Sizes{(*limit)[0]});
    places.own = {Places::kPlace, (*limit)[0], ""};
    return {places};
  }
  RowType range = Make(RowKind::kSame);
  for (const RowType& type : in) {
    range.of_all_rows |= type.of_all_rows;
    if (!type.is(RowKind::kSame) || type.exponent != 0) {
      return {op.Unknown("depends on the number of rows")};
    }
  }
  if (limit != nullptr && limit->size() == 1 && op.Constant(in[0]) == 0 &&
      in[2].numbers.has_value() && in[2].numbers->size() == 1) {
    const Size count = op.sizes().Over((*limit)[0], (*in[2].numbers)[0]);
    if (count.known()) range.dims = Sizes{count};
  }
  if (range.of_all_rows && !range.dims.has_value()) {
    return {op.Unknown("depends on the number of rows")};
  }
  return {range};
}

// Returns sizes in which those of the indices replace the axis that they index.
Sizes Gathered(const RowType& params, int axis, const RowType& at, int batch) {
  Sizes dims(params.dims->begin(), params.dims->begin() + axis);
  dims.insert(dims.end(), at.dims->begin() + std::min(batch, at.rank()),
              at.dims->end());
  dims.insert(dims.end(), params.dims->begin() + axis + 1, params.dims->end());
  return dims;
}

Types Gather(OpView& op, Types in) {
  if (const std::optional<RowType> looked = TypeLookup(op, in)) return {*looked};
  RowType params = in[0];
  const RowType at = op.Flat(1, in[1]);
  if (at.unknown()) return {at};
  if (params.is(RowKind::kHandle)) params = Make(RowKind::kSame, params.dims);
  const bool v2 = op.op() == "GatherV2";
  const std::optional<int64_t> number = v2 ? op.Constant(in[2]) : 0;
  const auto batch = static_cast<int>(op.Attr<int64_t>("batch_dims", 0));
  const bool rows_at = at.is(RowKind::kRows);
  if (params.partial() && (rows_at || !params.is(RowKind::kSum))) {
    params = op.Flat(0, params);
  }
  if (params.unknown()) return {params};
  const bool rows = params.is(RowKind::kRows);
  const std::optional<int> found =
      params.dims.has_value() ? AxisOf(number, params.rank()) : std::nullopt;
  const bool ranked = found.has_value() && at.dims.has_value() && batch >= 0;
  if (params.is(RowKind::kZero)) {
    RowType zero = Make(RowKind::kZero);
    if (ranked) zero.dims = Gathered(params, *found, at, batch);
    return {zero};
  }
  if (!rows && !rows_at) {
    RowType type = Make(params.kind, std::nullopt, params.exponent);
    type.of_all_rows = params.of_all_rows || at.of_all_rows;
    if (ranked && batch == 0) type.dims = Gathered(params, *found, at, 0);
    return {type};
  }
  if (!ranked) return {op.Unknown("selects from a tensor of unknown rank")};
  const int axis = *found;
  const Sizes dims = Gathered(params, axis, at, batch);
  const bool by_places = at.own.kind != Places::kNone;
  if (!rows) {
    if (by_places) return {op.Unknown("computes with row numbers")};
    if (at.axis < batch) {
      return {op.Unknown("combines rows with a constant that has as many elements")};
    }
    return {MakeRows(axis + at.axis - batch, at.part, dims, params.exponent)};
  }
  if (!rows_at) {
    if (params.axis == axis) return {op.Unknown("selects rows by their positions")};
    if (params.axis < batch) {
      return {op.Unknown("combines rows with a constant that has as many elements")};
    }
    const int kept =
        params.axis < axis ? params.axis : params.axis - 1 + at.rank() - batch;
    return {MakeRows(kept, params.part, dims, params.exponent)};
  }
  if (batch > params.axis && at.axis == params.axis && at.part == params.part &&
      !by_places) {
    return {MakeRows(params.axis, params.part, dims, params.exponent)};
  }
  if (axis == params.axis && Is(at, {Places::kPlace, Places::kNear}) &&
      at.own.of == (*params.dims)[axis]) {
    if (at.own.kind == Places::kNear) op.Need(RowNeed::Kind::kAssumed, 1, at);
    return {MakeRows(axis + at.axis, at.part, dims, params.exponent)};
  }
  return {op.Unknown("selects rows by indices that rows hold")};
}

Types GatherNd(OpView& op, Types in) {
  RowType params = in[0];
  const RowType at = op.Flat(1, in[1]);
  if (at.unknown()) return {at};
  if (params.is(RowKind::kHandle)) params = Make(RowKind::kSame, params.dims);
  if (params.partial()) params = op.Flat(0, params);
  if (params.unknown()) return {params};
  const bool rows = params.is(RowKind::kRows);
  if (!rows && !at.is(RowKind::kRows)) {
    RowType type = Make(params.kind, std::nullopt, params.exponent);
    type.of_all_rows = params.of_all_rows || at.of_all_rows;
    return {type};
  }
  if (!at.is(RowKind::kRows) || !at.dims.has_value() || !params.dims.has_value() ||
      at.axis == at.rank() - 1) {
    return {op.Unknown("selects rows by their positions")};
  }
  const std::optional<int64_t> depth = op.sizes().Number(at.dims->back());
  std::optional<Sizes> dims;
  if (depth.has_value() && *depth <= params.rank()) {
    dims = Sizes(at.dims->begin(), at.dims->end() - 1);
    dims->insert(dims->end(), params.dims->begin() + *depth, params.dims->end());
  }
  const bool own = Is(at, {Places::kColumn, Places::kNear}) && params.axis == 0 &&
                   at.own.of == (*params.dims)[0];
  if (own || (!rows && at.own.kind == Places::kNone)) {
    return {MakeRows(at.axis, at.part, dims, params.exponent)};
  }
  return {op.Unknown("selects rows by indices that rows hold")};
}

Types ScatterNd(OpView& op, Types in) {
  const RowType at = op.Flat(0, in[0]);
  const RowType& values = in[1];
  if (at.unknown()) return {at};
  const Sizes* const shape = OpView::Numbers(in[2]);
  std::optional<Sizes> dims;
  if (shape != nullptr) dims = *shape;
  if (values.is(RowKind::kZero)) return {Make(RowKind::kZero, dims)};
  if (at.is(RowKind::kRows) && values.is(RowKind::kRows)) {
    if (shape != nullptr && !shape->empty() &&
        Is(at, {Places::kColumn, Places::kNear}) && at.own.of == (*shape)[0] &&
        Numbered(op, at).has_value()) {
      return {MakeRows(0, *Numbered(op, at), dims, values.exponent)};
    }
    if (shape != nullptr && !op.sizes().MayHaveRows(*shape) && !in[2].of_all_rows &&
        at.own.kind == Places::kNone) {
      return {Make(RowKind::kSum, dims, values.exponent)};
    }
    return {op.Unknown("scatters rows among rows")};
  }
  if (!at.is(RowKind::kRows) &&
      (values.is(RowKind::kSame) || values.is(RowKind::kSum))) {
    return {values.WithoutNumbers().WithDims(dims)};
  }
  return {op.Unknown("scatters rows to positions among all rows")};
}

Types Segments(OpView& op, Types in) {
  const RowType &values = in[0], &at = in[1];
  if (values.is(RowKind::kZero)) return {Make(RowKind::kZero)};
  const Sizes* const numbers = in.size() > 2 ? OpView::Numbers(in[2]) : nullptr;
  const Size count =
      numbers != nullptr && !numbers->empty() ? (*numbers)[0] : kUnknownSize;
  const bool unsorted = absl::StartsWith(op.op(), "Unsorted");
  if (at.own.kind == Places::kSlot && unsorted && values.is(RowKind::kRows) &&
      values.axis == 0) {
    RowType slotted = Make(RowKind::kSlotted, std::nullopt, values.exponent);
    slotted.variable = at.own.slots;
    return {slotted};
  }
  if (at.is(RowKind::kOfSlots)) {
    if (at.own.kind == Places::kSlot && values.is(RowKind::kSlotted) &&
        values.variable == at.variable && op.op() == "UnsortedSegmentSum") {
      RowType slotted = values;
      slotted.variable = at.own.slots;
      return {slotted};
    }
    return {op.Unknown("computes with distinct values of each learner's rows")};
  }
  const bool rows = values.is(RowKind::kRows), rows_at = at.is(RowKind::kRows);
  if (!rows && !rows_at) {
    if (values.is(RowKind::kSum) && absl::EndsWith(op.op(), "Sum")) {
      return {values.Plain().WithDims(std::nullopt)};
    }
    const RowType flat = op.Flat(0, values);
    return {flat.unknown() ? flat : Same({flat})};
  }
  if (rows && rows_at && values.axis == 0 && at.axis == 0 && values.dims.has_value() &&
      at.dims.has_value() && values.part == at.part) {
    Sizes rest(values.dims->begin() + at.rank(), values.dims->end());
    if (Is(at, {Places::kPlace, Places::kNear, Places::kColumn}) &&
        (!count.known() || at.own.of == count) && Numbered(op, at).has_value()) {
      rest.insert(rest.begin(), at.own.of);
      return {MakeRows(0, *Numbered(op, at), rest, values.exponent)};
    }
    const bool fixed = in.size() > 2 && !in[2].is(RowKind::kSizes) &&
                       !in[2].of_all_rows && !op.sizes().HasRows(count) &&
                       at.own.kind == Places::kNone;
    rest.insert(rest.begin(), count);
    if (fixed && op.op() == "UnsortedSegmentSum") {
      return {Make(RowKind::kSum, rest, values.exponent)};
    }
    if (fixed && count.known() && op.is({"UnsortedSegmentMax", "UnsortedSegmentMin"})) {
      op.Rescaled(0, values);
      const bool max = absl::EndsWith(op.op(), "Max");
      return {Make(max ? RowKind::kMax : RowKind::kMin, rest)};
    }
    return {op.Unknown("reduces rows by segments")};
  }
  if (rows && at.is(RowKind::kSame) && values.dims.has_value() && at.dims.has_value() &&
      values.axis >= at.rank()) {
    Sizes dims(values.dims->begin() + at.rank(), values.dims->end());
    dims.insert(dims.begin(), count);
    return {MakeRows(values.axis - at.rank() + 1, values.part, dims, values.exponent)};
  }
  return {op.Unknown("reduces rows by segment numbers without rows")};
}

Types Where(OpView& op, Types in) {
  const RowType type = op.Flat(0, in[0]);
  if (type.unknown()) return {type};
  if (!type.is(RowKind::kRows)) return {Same({type})};
  if (type.axis != 0 || !type.dims.has_value()) {
    return {op.Unknown("needs rows on its first axis")};
  }
  const Part part = op.sizes().Chosen(op.SourceOf(0));
  RowType places = MakeRows(
      0, part, Sizes{op.sizes().RowsOf(part), op.sizes().Constant(type.rank())});
  places.own = {Places::kColumn, (*type.dims)[0], ""};
  return {places};
}

Types OneHot(OpView& op, Types in) {
  in = op.Flats(std::move(in));
  if (const RowType* unknown = FirstUnknown(in)) return {*unknown};
  for (size_t i = 1; i < in.size(); ++i) {
    if (in[i].is(RowKind::kRows)) return {op.Unknown("needs a scalar, and gets rows")};
  }
  RowType type = in[0];
  if (!type.is(RowKind::kRows)) return {Same(in)};
  if (!type.dims.has_value()) return {op.Unknown("has an input of unknown rank")};
  const Size depth = in[1].numbers.has_value() ? (*in[1].numbers)[0] : kUnknownSize;
  if (op.sizes().HasRows(depth) || in[1].sizes_rows()) {
    return {op.Unknown("has as many classes as rows")};
  }
  const int axis =
      AxisOf(op.Attr<int64_t>("axis", -1), type.rank() + 1).value_or(type.rank());
  Sizes dims = *type.dims;
  dims.insert(dims.begin() + axis, depth);
  return {MakeRows(type.axis + (axis <= type.axis ? 1 : 0), type.part, dims)};
}

Types AccidentalHits(OpView& op, Types in) {
  if (!in[0].is(RowKind::kRows) || !in[0].dims.has_value()) {
    return {op.Unknown("has no rows")};
  }
  const Part part = op.sizes().Chosen(op.path());
  RowType hits = MakeRows(0, part, Sizes{op.sizes().RowsOf(part)});
  RowType places = hits;
  places.own = {Places::kPlace, (*in[0].dims)[0], ""};
  return {places, hits, hits};
}

Types SparseToDense(OpView& op, Types in) {
  const Sizes* const shape = OpView::Numbers(in[1]);
  const RowType values = op.Flat(2, in[2]);
  if (values.unknown()) return {values};
  if (!in[0].is(RowKind::kRows) || in[0].own.kind != Places::kColumn ||
      shape == nullptr || shape->empty() || in[0].own.of != (*shape)[0] ||
      !Numbered(op, in[0]).has_value()) {
    return {op.Unknown("scatters values to positions among all rows")};
  }
  return {MakeRows(0, *Numbered(op, in[0]), *shape)};
}

}  // namespace

void AddIndexRules(RuleTable* rules) {
  rules->Set({"DenseToDenseSetOperation"}, &SetOperation);
  rules->Set({"SetSize"}, &SetSize);
  rules->Set({"Range"}, &Range);
  rules->Set({"EmbeddingLookup", "Gather", "GatherV2", "ResourceGather"}, &Gather);
  rules->Set({"GatherNd", "ResourceGatherNd"}, &GatherNd);
  rules->Set({"ScatterNd"}, &ScatterNd);
  rules->Set({"SegmentMax", "SegmentMean", "SegmentMin", "SegmentSum",
              "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentSum"},
             &Segments);
  rules->Set({"Unique", "UniqueV2", "UniqueWithCounts"}, &TypeUnique);
  rules->Set({"Where"}, &Where);
  rules->Set({"OneHot"}, &OneHot);
  rules->Set({"ComputeAccidentalHits"}, &AccidentalHits);
  rules->Set({"SparseToDense"}, &SparseToDense);
}

}  // namespace tensorbow
