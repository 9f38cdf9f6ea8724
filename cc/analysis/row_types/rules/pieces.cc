// Ops that concatenate or stack tensors, and split them again.
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

// Types pieces one after the other on an axis that is the axis of rows for some of
// them.
RowType Blocks(OpView& op, const Types& pieces, int axis) {
  RowType blocks = Make(RowKind::kBlocks);
  Size at = kZeroSize;
  for (const RowType& piece : pieces) {
    if (!piece.dims.has_value() || piece.rank() <= axis ||
        !(*piece.dims)[axis].known()) {
      return op.Unknown("concatenates rows with other values");
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
  if (parts.size() > 1) return op.Unknown("combines rows of different selections");
  Size total = kZeroSize;
  for (const RowType& piece : pieces) {
    const bool ranked = piece.dims.has_value() && piece.rank() > first.axis;
    const bool fixed =
        !piece.is(RowKind::kRows) && ranked &&
        op.sizes().Number((*piece.dims)[first.axis]).value_or(1) > 1;  // zeros may
    if ((!piece.is(RowKind::kRows) && !piece.is(RowKind::kZero)) || fixed) {
      return op.Unknown("combines rows with a constant that has as many elements");
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

// Types a concatenation, or a stack, without rows.
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
  // Pieces of blocks keep exponents of their own.
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
      return {op.Unknown("combines rows on different axes")};
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
  if (!axis.has_value())
    return {op.Unknown("stacks along an axis that does not exist")};
  if (*axis <= type.axis) ++type.axis;
  type.dims->insert(type.dims->begin() + *axis,
                    op.sizes().Constant(static_cast<int64_t>(in.size())));
  if (own.kind == Places::kPlace && *axis == 1) {
    type.own = own;
    type.own.kind = Places::kColumn;
  }
  return {type};
}

// Returns the pieces of a concatenation, if they are equal and as many as the split's.
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

Types ConcatOffset(OpView& op, Types in) {
  const std::optional<int64_t> axis = op.Constant(in[0]);
  Types types;
  Size at = kZeroSize;
  for (size_t i = 1; i < in.size(); ++i) {
    if (!in[i].numbers.has_value() || !axis.has_value()) {
      return {op.UnknownNumbers(in[i], "concatenates tensors")};
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

void AddPieceRules(RuleTable* rules) {
  rules->Set({"Concat", "ConcatV2"}, &Concat);
  rules->Set({"Pack"}, &Pack);
  rules->Set({"Split", "SplitV", "Unpack"}, &Split);
  rules->Set({"ConcatOffset"}, &ConcatOffset);
}

}  // namespace tensorbow
