// Ops that reshape or repeat elements, or compare shapes.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/analysis/row_types/laws.h"
#include "cc/analysis/row_types/rule.h"
#include "cc/analysis/row_types/slices.h"

namespace tensorbow {

namespace {

using Places = OwnPlaces::Kind;

// Fills in sizes that follow from others: -1, and an unknown one, from the total.
void FillIn(SizeTable& sizes, Size total, Sizes* dims) {
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<size_t> open;
    for (size_t d = 0; d < dims->size(); ++d) {
      const bool wild =
          pass == 0 ? sizes.Number((*dims)[d]) == -1 : !(*dims)[d].known();
      if (wild) open.push_back(d);
    }
    if (open.size() != 1) continue;
    Size rest = kOneSize;
    for (size_t d = 0; d < dims->size(); ++d) {
      if (d != open[0]) rest = sizes.Times(rest, (*dims)[d]);
    }
    (*dims)[open[0]] = sizes.Over(total, rest);
  }
}

Size Total(SizeTable& sizes, const RowType& type) {
  return type.dims.has_value() ? sizes.Times(*type.dims) : kUnknownSize;
}

Types ReshapeOthers(OpView& op, const RowType& type, const RowType& shape) {
  SizeTable& sizes = op.sizes();
  RowType reshaped = type;
  const bool zero = type.is(RowKind::kZero);
  if (!shape.numbers.has_value()) {
    if (shape.sizes_rows() && !shape.of_all_rows && !zero) {
      return {op.UnknownNumbers(shape, "reshapes a tensor")};
    }
    reshaped.dims.reset();
    reshaped.numbers.reset();
    return {reshaped};
  }
  Sizes dims = *shape.numbers;
  const auto open = [](const Sizes& sizes) {
    return std::any_of(sizes.begin(), sizes.end(),
                       [](Size size) { return !size.known(); });
  };
  const bool by_unknown = open(dims);
  FillIn(sizes, Total(sizes, type), &dims);
  if (!zero && (sizes.HasRows(dims) || (by_unknown && open(dims)))) {
    return {op.Unknown("reshapes a tensor without rows like rows")};
  }
  if (dims.size() > 1) reshaped.numbers.reset();
  if (reshaped.uniform != Uniform::kEverywhere) reshaped.uniform = Uniform::kNo;
  reshaped.dims = std::move(dims);
  return {reshaped};
}

// Returns own places in another shape.
OwnPlaces Reshaped(const OwnPlaces& own, const RowType& from, const Sizes& to) {
  OwnPlaces reshaped = own;
  if (own.kind == Places::kPlace && to.size() == 2 && to[1] == kOneSize) {
    reshaped.kind = Places::kColumn;
  } else if (own.kind == Places::kColumn && to.size() == 1 && from.rank() == 2 &&
             (*from.dims)[1] == kOneSize) {
    reshaped.kind = Places::kPlace;
  } else if (own.kind != Places::kSlot && static_cast<int>(to.size()) != from.rank()) {
    reshaped = OwnPlaces();
  }
  return reshaped;
}

Types Reshape(OpView& op, Types in) {
  const RowType &type = in[0], &shape = in[1];
  SizeTable& sizes = op.sizes();
  if (type.is(RowKind::kList) || type.is(RowKind::kSlots) ||
      type.is(RowKind::kSlotted)) {
    return {type};
  }
  if (!type.is(RowKind::kRows)) return ReshapeOthers(op, type, shape);
  if (!shape.numbers.has_value()) {
    return {op.UnknownNumbers(shape, "reshapes rows")};
  }
  if (!type.dims.has_value()) return {op.Unknown("reshapes rows of unknown rank")};
  Sizes dims = *shape.numbers;
  FillIn(sizes, Total(sizes, type), &dims);
  std::vector<int> axes;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (sizes.HasRows(dims[d])) axes.push_back(static_cast<int>(d));
  }
  if (axes.size() != 1) return {op.Unknown("moves rows to an unknown axis")};
  const int axis = axes[0];
  // Elements before the rows stay before them, or become a factor of the part.
  const SizeTable::PartInfo& info = sizes.Info(type.part);
  const bool repeated = info.kind == SizeTable::PartInfo::Kind::kRepeated;
  const Part base = repeated ? info.base : type.part;
  const absl::Span<const Size> old_dims(*type.dims), new_dims(dims);
  const Size before = sizes.Times(sizes.Times(old_dims.subspan(0, type.axis)),
                                  repeated ? info.by : kOneSize);
  const Size front = sizes.Over(before, sizes.Times(new_dims.subspan(0, axis)));
  const std::optional<Part> counted = sizes.PartOf(dims[axis]);
  const bool mixed =
      !front.known() || !counted.has_value() ||
      (front != kOneSize &&
       !sizes.Over(dims[axis], sizes.Times(front, sizes.RowsOf(*counted))).known());
  if (mixed) return {op.Unknown("merges the rows with an axis before them")};
  const Part part = front == kOneSize ? base : sizes.Repeated(front, base);
  RowType reshaped = MakeRows(axis, part, dims, type.exponent);
  reshaped.own = Reshaped(type.own, type, dims);
  reshaped.uniform = type.uniform;
  return {reshaped};
}

Types ExpandDims(OpView& op, Types in) {
  RowType type = in[0];
  const std::optional<int64_t> number = op.Constant(in[1]);
  if (!type.dims.has_value() || !number.has_value()) {
    if (type.is(RowKind::kRows)) return {op.Unknown("adds an unknown axis")};
    return {type.WithoutNumbers().WithDims(std::nullopt)};
  }
  const std::optional<int> axis = AxisOf(number, type.rank() + 1);
  if (!axis.has_value()) return {op.Unknown("adds an axis that does not exist")};
  if (type.own.kind == Places::kPlace && *axis == 1) {
    type.own.kind = Places::kColumn;
  } else {
    type.own = OwnPlaces();
  }
  if (type.rank() > 0) type.numbers.reset();
  if (!type.is(RowKind::kRows) && type.uniform != Uniform::kEverywhere && *axis == 0) {
    type.uniform = Uniform::kNo;
  }
  if (type.is(RowKind::kRows) && *axis <= type.axis) ++type.axis;
  type.dims->insert(type.dims->begin() + *axis, kOneSize);
  return {type};
}

Types Squeeze(OpView& op, Types in) {
  RowType type = in[0];
  const auto named = op.Attr<std::vector<int64_t>>("squeeze_dims", {});
  if (!type.dims.has_value()) {
    if (type.is(RowKind::kRows)) return {op.Unknown("has an input of unknown rank")};
    return {type.WithoutNumbers()};
  }
  std::set<int> axes;
  for (int64_t axis : named) {
    const std::optional<int> found = AxisOf(axis, type.rank());
    if (found.has_value()) axes.insert(*found);
  }
  for (int d = 0; named.empty() && d < type.rank(); ++d) {
    const Size size = (*type.dims)[d];
    if (size == kOneSize) axes.insert(d);
    if (type.is(RowKind::kRows) && d != type.axis &&
        !op.sizes().Number(size).has_value()) {
      return {op.Unknown("removes unknown axes")};
    }
    if (!op.sizes().HasRows(size)) continue;
    // It also removes an axis of one row.
    if (!op.sizes().Over(size, op.sizes().RowsOf(kFedRows)).known()) {
      return {op.Unknown("removes the axis of rows if there is one")};
    }
    op.Need(RowNeed::Kind::kTwoRows, /*input=*/-1);
  }
  if (type.is(RowKind::kRows) && axes.count(type.axis) > 0) {
    return {op.Unknown("removes the axis of rows")};
  }
  Sizes dims;
  for (int d = 0; d < type.rank(); ++d) {
    if (axes.count(d) == 0) dims.push_back((*type.dims)[d]);
  }
  if (type.is(RowKind::kRows)) {
    const auto before = std::distance(axes.begin(), axes.lower_bound(type.axis));
    const bool column = type.own.kind == Places::kColumn && dims.size() == 1;
    if (column) type.own.kind = Places::kPlace;
    if (!column) type.own = OwnPlaces();
    type.numbers.reset();
    type.axis -= static_cast<int>(before);
  } else if (type.uniform != Uniform::kEverywhere) {
    type.uniform = Uniform::kNo;
  }
  type.dims = std::move(dims);
  return {type};
}

Types Transpose(OpView& op, Types in) {
  RowType type = in[0].Plain();
  if (!type.is(RowKind::kRows)) {
    type.dims.reset();
    type.uniform = Uniform::kNo;
    return {type};
  }
  if (!in[1].numbers.has_value() || !type.dims.has_value()) {
    return {op.UnknownNumbers(in[1], "permutes axes")};
  }
  Sizes dims;
  int axis = -1;
  for (Size number : *in[1].numbers) {
    const std::optional<int> from = AxisOf(op.sizes().Number(number), type.rank());
    if (!from.has_value()) return {op.Unknown("permutes axes in an unknown order")};
    if (*from == type.axis) axis = static_cast<int>(dims.size());
    dims.push_back((*type.dims)[*from]);
  }
  type.axis = axis;
  type.dims = std::move(dims);
  return {type};
}

// Returns the uniformity of a repeated value.
Uniform UniformOfRepeated(const RowType& type, bool grows) {
  const bool single = std::all_of(type.dims->begin(), type.dims->end(),
                                  [](Size size) { return size == kOneSize; });
  if (single || type.uniform == Uniform::kEverywhere) return Uniform::kEverywhere;
  const bool along = grows || type.uniform != Uniform::kNo ||
                     (type.rank() > 0 && (*type.dims)[0] == kOneSize);
  return along ? Uniform::kAlongRows : Uniform::kNo;
}

Types Tile(OpView& op, Types in) {
  RowType type = in[0].Plain();
  SizeTable& sizes = op.sizes();
  const bool broadcasts = op.op() == "BroadcastTo";
  const Sizes* const counts = OpView::Numbers(in[1]);
  if (type.is(RowKind::kZero)) {
    RowType zero = Make(RowKind::kZero);
    if (broadcasts && counts != nullptr) zero.dims = *counts;
    zero.uniform = Uniform::kEverywhere;
    return {zero};
  }
  if (counts == nullptr || !type.dims.has_value()) {
    if (type.is(RowKind::kRows) || in[1].sizes_rows()) {
      return {op.UnknownNumbers(in[1], "repeats a tensor")};
    }
    return {type.WithDims(std::nullopt)};
  }
  for (Size count : *counts) {
    if (!count.known()) return {op.UnknownNumbers(in[1], "repeats a tensor")};
  }
  const int shift = broadcasts ? static_cast<int>(counts->size()) - type.rank() : 0;
  if (shift < 0 || (!broadcasts && static_cast<int>(counts->size()) != type.rank())) {
    return {op.Unknown("repeats a tensor of another rank")};
  }
  const bool rows = type.is(RowKind::kRows);
  Sizes dims = *counts;
  std::vector<int> grown;  // axes on which rows appear
  for (int d = 0; d < static_cast<int>(counts->size()); ++d) {
    const bool own = rows && d - shift == type.axis;
    if (!broadcasts) dims[d] = sizes.Times((*type.dims)[d], (*counts)[d]);
    if (!broadcasts && own && (*counts)[d] != kOneSize) {
      return {op.Unknown("repeats rows")};
    }
    if (!sizes.HasRows((*counts)[d]) || own) continue;
    if (!broadcasts && (*type.dims)[d] != kOneSize) {
      return {op.Unknown("repeats a tensor once for each row")};
    }
    grown.push_back(d);
  }
  const Uniform uniform = UniformOfRepeated(type, shift > 0);
  if (rows && !grown.empty()) return {op.Unknown("repeats rows for each row")};
  if (rows) {
    type.axis += shift;
    type.dims = std::move(dims);
    return {type};
  }
  if (grown.empty()) {
    type.dims = std::move(dims);
    type.uniform = type.is(RowKind::kSame) ? uniform : Uniform::kNo;
    return {type};
  }
  const std::optional<Part> part = sizes.PartOf(dims[grown[0]]);
  if (grown.size() > 1 || !part.has_value())
    return {op.Unknown("has rows on two axes")};
  type = op.Exchanged(0, type);
  if (!type.is(RowKind::kSame))
    return {op.Unknown("repeats a tensor that differs between learners")};
  RowType repeated = MakeRows(grown[0], *part, dims, type.exponent);
  repeated.uniform = uniform == Uniform::kEverywhere ? uniform : Uniform::kAlongRows;
  return {repeated};
}

Types Fill(OpView& op, Types in) {
  RowType value = in[1];
  if (in[0].numbers.has_value()) return {Filled(op, value, *in[0].numbers, 1)};
  if (in[0].sizes_rows()) {
    return {op.UnknownNumbers(in[0], "fills a tensor")};
  }
  value = value.WithoutNumbers();
  value.dims.reset();
  value.uniform = Uniform::kEverywhere;
  return {value};
}

Types Like(OpView& op, Types in) {
  const RowType& type = in[0];
  const bool zeros = op.op() == "ZerosLike";
  RowType like = Make(RowKind::kSame, type.dims);
  if (type.is(RowKind::kList)) {
    like = type;
    if (type.element != nullptr) {
      like.element =
          std::make_shared<RowType>(Make(RowKind::kZero, type.element->dims));
    }
    return {like};
  }
  if (zeros && (tensorflow::DataTypeIsFloating(op.output_type(0)) || type.unknown())) {
    like.kind = RowKind::kZero;
  } else if (type.unknown()) {
    return {type};
  } else if (type.is(RowKind::kRows)) {
    like = MakeRows(type.axis, type.part, type.dims);
  }
  like.uniform = Uniform::kEverywhere;
  return {like};
}

Types BroadcastGradientArgs(OpView& op, Types in) {
  SizeTable& sizes = op.sizes();
  if (!in[0].numbers.has_value() || !in[1].numbers.has_value()) {
    return {
        op.UnknownNumbers(in[in[0].numbers.has_value() ? 1 : 0], "compares shapes")};
  }
  const Sizes* const shapes[] = {&*in[0].numbers, &*in[1].numbers};
  const size_t rank = std::max(shapes[0]->size(), shapes[1]->size());
  Types types = {Make(RowKind::kAxes), Make(RowKind::kAxes)};
  for (size_t axis = 0; axis < rank; ++axis) {
    Size pair[2];
    for (int s : {0, 1}) {
      const size_t missing = rank - shapes[s]->size();
      pair[s] = axis < missing ? kOneSize : (*shapes[s])[axis - missing];
    }
    for (int s : {0, 1}) {
      const Size mine = pair[s], other = pair[1 - s];
      const bool open =
          mine.known() && !sizes.HasRows(mine) && !sizes.Number(mine).has_value();
      const std::optional<int64_t> number = sizes.Number(other);
      const bool of_all = sizes.CountsAll(other) || number.value_or(1) > 1 ||
                          (in[1 - s].of_all_rows && !number.has_value());
      if (sizes.HasRows(mine) && of_all) {
        return {
            op.Unknown("compares a learner's number of rows with that of the batch")};
      }
      if (mine == other && mine != kOneSize && mine.known()) continue;
      if (mine == kOneSize || (sizes.HasRows(other) && open)) {
        types[s].axes.push_back(static_cast<int>(axis));
      } else if (!mine.known() || !other.known() ||
                 (open && sizes.Number(other) != 1)) {
        types[s].perhaps.push_back(static_cast<int>(axis));
      }
    }
  }
  return types;
}

}  // namespace

void AddShapeRules(RuleTable* rules) {
  rules->Set({"Reshape"}, &Reshape);
  rules->Set({"ExpandDims"}, &ExpandDims);
  rules->Set({"Squeeze"}, &Squeeze);
  rules->Set({"ConjugateTranspose", "Transpose"}, &Transpose);
  rules->Set({"BroadcastTo", "Tile"}, &Tile);
  rules->Set({"Fill"}, &Fill);
  rules->Set({"OnesLike", "ZerosLike"}, &Like);
  rules->Set({"BroadcastGradientArgs"}, &BroadcastGradientArgs);
}

}  // namespace tensorbow
