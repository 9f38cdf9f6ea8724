// Ops that give elements another shape, cut tensors or put them together.
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

// Sizes that follow from others: -1, and one that is unknown, from the total.
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
      return {op.UnknownNumbers(shape, "gives a tensor a shape")};
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
    return {op.Unknown("gives the shape of rows to a tensor that has none")};
  }
  if (dims.size() > 1) reshaped.numbers.reset();
  if (reshaped.uniform != Uniform::kEverywhere) reshaped.uniform = Uniform::kNo;
  reshaped.dims = std::move(dims);
  return {reshaped};
}

// Own places in another shape.
OwnPlaces Reshaped(const OwnPlaces& own, const RowType& from, const Sizes& to) {
  OwnPlaces reshaped = own;
  if (own.kind == Places::kPlace && to.size() == 2 && to[1] == kOneSize) {
    reshaped.kind = Places::kColumn;
  } else if (own.kind == Places::kColumn && to.size() == 1 && from.rank() == 2 &&
             (*from.dims)[1] == kOneSize) {
    reshaped.kind = Places::kPlace;
  } else if (static_cast<int>(to.size()) != from.rank()) {
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
    return {op.UnknownNumbers(shape, "gives rows a shape")};
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
  // Elements that lie before the rows stay before them, or become a factor of the part.
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
  if (mixed) return {op.Unknown("mixes rows with an axis before them")};
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
  if (!axis.has_value()) return {op.Unknown("adds an axis that there is not")};
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
      return {op.Unknown("removes axes that are not known")};
    }
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

// The uniformity of something repeated.
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
  if (!type.is(RowKind::kSame)) return {op.Unknown("repeats such a tensor")};
  RowType repeated = MakeRows(grown[0], *part, dims, type.exponent);
  repeated.uniform = uniform == Uniform::kEverywhere ? uniform : Uniform::kAlongRows;
  return {repeated};
}

Types Fill(OpView& op, Types in) {
  RowType value = in[1];
  if (in[0].numbers.has_value()) return {Filled(op, value, *in[0].numbers, 1)};
  if (in[0].sizes_rows()) {
    return {op.UnknownNumbers(in[0], "fills a shape")};
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

// Pieces one after the other on an axis that for some of them is that of rows.
RowType Blocks(OpView& op, const Types& pieces, int axis) {
  RowType blocks = Make(RowKind::kBlocks);
  Size at = kZeroSize;
  for (const RowType& piece : pieces) {
    if (!piece.dims.has_value() || piece.rank() <= axis ||
        !(*piece.dims)[axis].known()) {
      return op.Unknown("puts rows beside others on their axis");
    }
    blocks.blocks.push_back({at, piece});
    at = op.sizes().Plus(at, (*piece.dims)[axis]);
  }
  blocks.axis = axis;
  blocks.dims = pieces[0].dims;
  (*blocks.dims)[axis] = at;
  return blocks;
}

RowType ConcatOfRows(OpView& op, const Types& pieces, const Types& rows, int axis,
                     int exponent) {
  SizeTable& sizes = op.sizes();
  const RowType& first = rows[0];
  if (axis == first.axis) {
    if (rows.size() < pieces.size()) return Blocks(op, pieces, axis);
    Size total = kZeroSize;
    int64_t unit = 0;
    for (const RowType& piece : rows) {
      const Size size = (*piece.dims)[axis];
      total = sizes.Plus(total, size);
      const std::optional<Part> counted = sizes.PartOf(size);
      const int64_t times =
          counted.has_value()
              ? sizes.Number(sizes.Over(size, sizes.RowsOf(*counted))).value_or(1)
              : 1;
      unit = unit == 0 ? times : std::min(unit, times);
    }
    std::vector<std::pair<Part, Size>> parts;
    for (const RowType& piece : rows) {
      const Size size = (*piece.dims)[axis];
      const Size units = sizes.Over(size, sizes.Constant(std::max<int64_t>(1, unit)));
      parts.push_back({piece.part, units.known() ? units : size});
    }
    Sizes dims = *first.dims;
    dims[axis] = total;
    return MakeRows(axis, sizes.Concatenated(std::move(parts)), dims, exponent);
  }
  std::set<Part> parts;
  for (const RowType& type : rows) parts.insert(PartAmong(type, rows));
  if (parts.size() > 1) return op.Unknown("puts rows of different choices together");
  Size total = kZeroSize;
  for (const RowType& piece : pieces) {
    const bool ranked = piece.dims.has_value() && piece.rank() > first.axis;
    const bool fixed =
        !piece.is(RowKind::kRows) && ranked &&
        op.sizes().Number((*piece.dims)[first.axis]).value_or(1) > 1;  // zeros
    if ((!piece.is(RowKind::kRows) && !piece.is(RowKind::kZero)) || fixed) {
      return op.Unknown("sets rows against a constant of as many");
    }
    total = sizes.Plus(total, piece.dims.has_value() && piece.rank() > axis
                                  ? (*piece.dims)[axis]
                                  : kUnknownSize);
  }
  Sizes dims = *first.dims;
  dims[axis] = total;
  RowType type = MakeRows(first.axis, *parts.begin(), dims, exponent);
  if (pieces[0].is(RowKind::kRows) && pieces[0].own.kind == Places::kColumn &&
      axis == 1) {
    type.own = pieces[0].own;
  }
  return type;
}

// A concatenation, or a stack, without rows.
RowType TogetherWithoutRows(OpView& op, Types pieces, const std::vector<int>& inputs) {
  std::set<int> exponents;
  bool sums = false, of_all_rows = false;
  for (const RowType& piece : pieces) sums |= piece.is(RowKind::kSum);
  for (const RowType& piece : pieces) {
    if (piece.is(RowKind::kZero)) continue;
    exponents.insert(piece.exponent + (sums && piece.is(RowKind::kSame) ? 1 : 0));
    of_all_rows |= piece.of_all_rows;
  }
  RowType type = Make(sums ? RowKind::kSum : RowKind::kSame);
  if (exponents.size() == 1) {
    type.exponent = *exponents.begin();
  } else {
    type.kind = RowKind::kSame;
    for (size_t i = 0; i < pieces.size(); ++i) {
      pieces[i] = op.Flat(inputs[i], pieces[i]);
      if (pieces[i].unknown()) return pieces[i];
      of_all_rows |= pieces[i].of_all_rows;
    }
  }
  type.of_all_rows = of_all_rows;
  return type;
}

Types Concat(OpView& op, Types in) {
  const size_t at = op.op() == "ConcatV2" ? in.size() - 1 : 0;
  const std::optional<int64_t> number = op.Constant(in[at]);
  Types pieces, rows;
  std::vector<int> inputs;
  bool zero = true, uniform = true;
  for (size_t i = 0; i < in.size(); ++i) {
    if (i == at) continue;
    RowType piece = in[i];
    if (piece.extreme() || piece.is(RowKind::kSlots) || piece.is(RowKind::kSlotted)) {
      piece = op.Flat(static_cast<int>(i), piece);
    }
    if (piece.is(RowKind::kSizes)) return {Make(RowKind::kSizes)};
    if (piece.unknown()) return {piece};
    zero &= piece.is(RowKind::kZero);
    uniform &= piece.uniform != Uniform::kNo;
    pieces.push_back(piece);
    inputs.push_back(static_cast<int>(i));
  }
  if (zero) return {Make(RowKind::kZero)};
  std::optional<int> exponent;
  for (const RowType& piece : pieces) {
    if (piece.is(RowKind::kRows) && !exponent.has_value()) exponent = piece.exponent;
  }
  if (!exponent.has_value()) {
    RowType type = TogetherWithoutRows(op, pieces, inputs);
    if (number.value_or(0) != 0 && uniform) type.uniform = Uniform::kAlongRows;
    return {type};
  }
  for (RowType& piece : pieces) {
    piece = AsRows(piece, op.sizes());
    if (piece.is(RowKind::kRows)) rows.push_back(piece);
  }
  const bool ranked = rows[0].dims.has_value();
  // Pieces of blocks have exponents of their own.
  const bool blocks = rows.size() < pieces.size() && ranked &&
                      AxisOf(number, rows[0].rank()) == rows[0].axis;
  rows.clear();
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].is(RowKind::kZero)) continue;
    pieces[i] = op.Exchanged(inputs[i], pieces[i]);
    if (!blocks) pieces[i] = op.Rescaled(inputs[i], pieces[i], *exponent);
    if (pieces[i].unknown()) return {pieces[i]};
    if (pieces[i].is(RowKind::kRows)) rows.push_back(pieces[i]);
  }
  for (const RowType& type : rows) {
    if (!type.dims.has_value() || type.axis != rows[0].axis ||
        type.rank() != rows[0].rank()) {
      return {op.Unknown("puts rows on different axes together")};
    }
  }
  const std::optional<int> axis = AxisOf(number, rows[0].rank());
  if (!axis.has_value()) return {op.Unknown("concatenates along an unknown axis")};
  return {ConcatOfRows(op, pieces, rows, *axis, *exponent)};
}

Types Pack(OpView& op, Types in) {
  std::vector<int> inputs;
  bool zero = true;
  std::optional<int> exponent;
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].extreme()) in[i] = op.Flat(static_cast<int>(i), in[i]);
    if (in[i].is(RowKind::kSizes)) return {Make(RowKind::kSizes)};
    if (in[i].unknown()) return {in[i]};
    zero &= in[i].is(RowKind::kZero);
    if (in[i].is(RowKind::kRows) && !exponent.has_value()) exponent = in[i].exponent;
    inputs.push_back(static_cast<int>(i));
  }
  if (zero) return {Make(RowKind::kZero)};
  if (!exponent.has_value()) return {TogetherWithoutRows(op, in, inputs)};
  for (int i : inputs) {
    if (!in[i].is(RowKind::kZero)) {
      in[i] = op.Rescaled(i, op.Exchanged(i, in[i]), *exponent);
    }
  }
  const OwnPlaces own = in[0].own;
  RowType type = Spread(op, in, *exponent);
  if (!type.is(RowKind::kRows)) return {type};
  const std::optional<int> axis = AxisOf(op.Attr<int64_t>("axis", 0), type.rank() + 1);
  if (!axis.has_value()) return {op.Unknown("stacks along an axis that there is not")};
  if (*axis <= type.axis) ++type.axis;
  type.dims->insert(type.dims->begin() + *axis,
                    op.sizes().Constant(static_cast<int64_t>(in.size())));
  if (own.kind == Places::kPlace && *axis == 1) {
    type.own = own;
    type.own.kind = Places::kColumn;
  }
  return {type};
}

// One of the pieces of a concatenation, if all of them are as large.
std::optional<Types> SplitOfConcatenation(OpView& op, const RowType& type) {
  const SizeTable::PartInfo info = op.sizes().Info(type.part);
  const size_t count = info.pieces.size();
  if (info.kind != SizeTable::PartInfo::Kind::kConcatenated || op.op() != "Split" ||
      static_cast<int>(count) != op.num_outputs()) {
    return std::nullopt;
  }
  Types types;
  for (const auto& [part, size] : info.pieces) {
    if (size != info.pieces[0].second) return std::nullopt;
    RowType piece = type.Plain();
    piece.part = part;
    Size& dim = (*piece.dims)[type.axis];
    dim = op.sizes().Over(dim, op.sizes().Constant(static_cast<int64_t>(count)));
    types.push_back(piece);
  }
  return types;
}

Types Split(OpView& op, Types in) {
  const int k = op.op() == "Split" ? 1 : 0;
  RowType type = in[k].extreme() ? op.Flat(k, in[k]) : in[k];
  const bool has_rows = type.is(RowKind::kRows);
  const std::optional<int64_t> number =
      op.op() == "Unpack" ? op.Attr<int64_t>("axis", 0)
                          : op.Constant(in[op.op() == "Split" ? 0 : 2]);
  const std::optional<int> axis =
      type.dims.has_value() ? AxisOf(number, type.rank()) : std::nullopt;
  if (has_rows && !axis.has_value()) return {op.Unknown("splits an unknown axis")};
  if (has_rows && *axis == type.axis) {
    const std::optional<Types> pieces = SplitOfConcatenation(op, type);
    return pieces.has_value() ? *pieces : Types{op.Unknown("splits the rows")};
  }
  type = has_rows ? type.Plain() : type.WithoutNumbers();
  if (!has_rows) type.uniform = Uniform::kNo;
  if (!axis.has_value()) {
    type.dims.reset();
    return {type};
  }
  if (op.op() == "Unpack") {
    type.dims->erase(type.dims->begin() + *axis);
    if (has_rows && *axis < type.axis) --type.axis;
    return {type};
  }
  Size& dim = (*type.dims)[*axis];
  dim = op.op() == "Split" ? op.sizes().Over(dim, op.sizes().Constant(op.num_outputs()))
                           : kUnknownSize;
  return {type};
}

Types SliceOp(OpView& op, Types in) {
  RowType type = in[0].extreme() ? op.Flat(0, in[0]) : in[0];
  if (!type.is(RowKind::kRows)) return {SliceOfOthers(op, type, in)};
  if (!type.dims.has_value()) return {op.Unknown("cuts rows of unknown rank")};
  for (int i : {1, 2}) {
    if (!in[i].numbers.has_value()) return {op.UnknownNumbers(in[i], "cuts rows")};
  }
  const Sizes &begin = *in[1].numbers, &size = *in[2].numbers;
  const std::optional<CutRows> cut =
      CutOfRows(op.sizes(), type, begin[type.axis], size[type.axis]);
  if (!cut.has_value()) return {op.Unknown("takes some rows by their places")};
  type = type.Plain();
  for (int d = 0; d < type.rank(); ++d) {
    (*type.dims)[d] = d == type.axis                     ? cut->size
                      : op.sizes().Number(size[d]) == -1 ? kUnknownSize
                                                         : size[d];
  }
  type.part = cut->part;
  return {type};
}

Types StridedSlice(OpView& op, Types in) {
  RowType type = in[0].extreme() ? op.Flat(0, in[0]) : in[0];
  if (type.is(RowKind::kSizes)) return {op.Unknown("takes a part of unknown sizes")};
  if (!type.is(RowKind::kRows)) return {SliceOfOthers(op, type, in)};
  if (!type.dims.has_value()) return {op.Unknown("cuts rows of unknown rank")};
  for (int i : {1, 2, 3}) {
    if (!in[i].numbers.has_value()) return {op.UnknownNumbers(in[i], "cuts rows")};
  }
  SizeTable& sizes = op.sizes();
  Sizes dims;
  RowType cut = type.Plain();
  for (const StrideEntry& entry :
       StridesOf(op, type.rank(), *in[1].numbers, *in[2].numbers, *in[3].numbers)) {
    if (!entry.axis.has_value()) {
      dims.push_back(kOneSize);
    } else if (*entry.axis == type.axis) {
      const std::optional<CutRows> rows = CutOfRows(sizes, type, entry);
      if (!rows.has_value()) return {op.Unknown("takes some rows by their places")};
      cut.axis = static_cast<int>(dims.size());
      cut.part = rows->part;
      dims.push_back(rows->size);
    } else if (!entry.shrinks) {
      dims.push_back(SizeOfStride(sizes, (*type.dims)[*entry.axis], entry));
    }
  }
  cut.dims = std::move(dims);
  return {cut};
}

Types StridedSliceGrad(OpView& op, Types in) {
  RowType type = in[4];
  const Sizes* const shape = OpView::Numbers(in[0]);
  std::optional<Sizes> dims;
  if (shape != nullptr) dims = *shape;
  if (type.is(RowKind::kZero)) return {Make(RowKind::kZero, dims)};
  if (!type.is(RowKind::kRows)) {
    if (shape == nullptr || op.sizes().MayHaveRows(*shape)) {
      return {op.Unknown("puts a value without rows among rows")};
    }
    return {type.WithoutNumbers().WithDims(dims)};
  }
  for (int i : {0, 1, 2, 3}) {
    if (!in[i].numbers.has_value()) return {op.UnknownNumbers(in[i], "cuts rows")};
  }
  int at = 0;
  for (const StrideEntry& entry :
       StridesOf(op, static_cast<int>(shape->size()), *in[1].numbers, *in[2].numbers,
                 *in[3].numbers)) {
    if (entry.shrinks) continue;
    if (entry.axis.has_value() && at == type.axis) {
      const RowType all = MakeRows(*entry.axis, type.part, dims);
      const Size size = (*dims)[*entry.axis];
      if (!op.sizes().HasRows(size) || size != (*type.dims)[at] ||
          !CutOfRows(op.sizes(), all, entry).has_value()) {
        return {op.Unknown("puts rows among others")};
      }
      type = type.Plain();
      type.axis = *entry.axis;
      type.dims = dims;
      return {type};
    }
    ++at;
  }
  return {op.Unknown("loses rows")};
}

// One block among zeros.
RowType PaddedBlock(OpView& op, const RowType& type, int axis, const Sizes& pads) {
  if (!type.dims.has_value()) return op.Unknown("pads rows of unknown rank");
  for (size_t i = 0; i < pads.size(); ++i) {
    if (static_cast<int>(i) / 2 != axis && pads[i] != kZeroSize) {
      return op.Unknown("pads rows");
    }
  }
  SizeTable& sizes = op.sizes();
  RowType blocks = Make(RowKind::kBlocks, type.dims);
  blocks.axis = axis;
  blocks.blocks.push_back({pads[2 * axis], type});
  Size& dim = (*blocks.dims)[axis];
  dim = sizes.Plus(sizes.Plus(dim, pads[2 * axis]), pads[2 * axis + 1]);
  return blocks;
}

Types Pad(OpView& op, Types in) {
  const bool plain = op.op() == "Pad";
  RowType type = in[0];
  if (type.partial() && !(plain && type.is(RowKind::kSum))) type = op.Flat(0, type);
  if (op.op() == "PadV2") {
    type = op.Flat(0, type);
    if (op.Flat(2, in[2]).is(RowKind::kRows)) return {op.Unknown("pads with rows")};
  }
  const Sizes* const pads = OpView::Numbers(in[1]);
  if (!type.is(RowKind::kRows)) {
    for (size_t i = 0; pads != nullptr && plain && i < pads->size(); ++i) {
      if (op.sizes().HasRows((*pads)[i])) {
        return {PaddedBlock(op, type, static_cast<int>(i) / 2, *pads)};
      }
    }
    if (in[1].sizes_rows()) {
      return {op.UnknownNumbers(in[1], "pads a tensor")};
    }
    type = type.WithoutNumbers();
    type.dims.reset();
    type.uniform = Uniform::kNo;
    return {type};
  }
  if (pads == nullptr || !type.dims.has_value()) {
    return {op.UnknownNumbers(in[1], "pads rows")};
  }
  const size_t own = 2 * type.axis;
  if ((*pads)[own] != kZeroSize || (*pads)[own + 1] != kZeroSize) {
    return {plain ? PaddedBlock(op, type, type.axis, *pads) : op.Unknown("pads rows")};
  }
  type = type.Plain();
  for (int d = 0; d < type.rank(); ++d) {
    Size& dim = (*type.dims)[d];
    for (Size pad : {(*pads)[2 * d], (*pads)[2 * d + 1]}) {
      dim = op.op() == "MirrorPadGrad" ? op.sizes().Minus(dim, pad)
                                       : op.sizes().Plus(dim, pad);
    }
  }
  return {type};
}

Types Reverse(OpView& op, Types in) {
  const RowType& type = in[0];
  if (!type.is(RowKind::kRows)) return {type.Plain()};
  if (!in[1].numbers.has_value() || !type.dims.has_value() || op.op() == "Reverse") {
    return {op.Unknown("reverses unknown axes")};
  }
  for (Size number : *in[1].numbers) {
    const std::optional<int> axis = AxisOf(op.sizes().Number(number), type.rank());
    if (!axis.has_value() || *axis == type.axis) {
      return {op.Unknown("puts rows in another order")};
    }
  }
  return {type.Plain()};
}

Types ReverseSequence(OpView& op, Types in) {
  const RowType lengths = op.Flat(1, in[1]);
  if (lengths.unknown()) return {lengths};
  RowType type = in[0];
  if (type.is(RowKind::kRows) && type.axis != op.Attr<int64_t>("batch_dim", 0)) {
    return {op.Unknown("puts rows in another order")};
  }
  if (!type.is(RowKind::kRows) && lengths.is(RowKind::kRows)) {
    return {op.Unknown("sets rows against a constant of as many")};
  }
  return {type.Plain()};
}

Types BroadcastGradientArgs(OpView& op, Types in) {
  SizeTable& sizes = op.sizes();
  if (!in[0].numbers.has_value() || !in[1].numbers.has_value()) {
    return {
        op.UnknownNumbers(in[in[0].numbers.has_value() ? 1 : 0], "compares a shape")};
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
        return {op.Unknown("compares a learner's rows with all rows")};
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

Types ConcatOffset(OpView& op, Types in) {
  const std::optional<int64_t> axis = op.Constant(in[0]);
  Types types;
  Size at = kZeroSize;
  for (size_t i = 1; i < in.size(); ++i) {
    if (!in[i].numbers.has_value() || !axis.has_value()) {
      return {op.UnknownNumbers(in[i], "puts tensors together")};
    }
    Sizes offsets(in[i].numbers->size(), kZeroSize);
    offsets[*axis] = at;
    at = op.sizes().Plus(at, (*in[i].numbers)[*axis]);
    const Size count = op.sizes().Constant(static_cast<int64_t>(offsets.size()));
    types.push_back(TypeOfNumbers(op.sizes(), {count}, offsets));
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
  rules->Set({"Concat", "ConcatV2"}, &Concat);
  rules->Set({"Pack"}, &Pack);
  rules->Set({"Split", "SplitV", "Unpack"}, &Split);
  rules->Set({"Slice"}, &SliceOp);
  rules->Set({"StridedSlice"}, &StridedSlice);
  rules->Set({"StridedSliceGrad"}, &StridedSliceGrad);
  rules->Set({"MirrorPad", "MirrorPadGrad", "Pad", "PadV2"}, &Pad);
  rules->Set({"Reverse", "ReverseV2"}, &Reverse);
  rules->Set({"ReverseSequence"}, &ReverseSequence);
  rules->Set({"BroadcastGradientArgs"}, &BroadcastGradientArgs);
  rules->Set({"ConcatOffset"}, &ConcatOffset);
}

}  // namespace tensorbow
