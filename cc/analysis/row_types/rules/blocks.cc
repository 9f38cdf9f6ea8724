// Ops on pieces that lie one after the other on an axis, some of them rows: each piece
// is typed by itself.
#include <algorithm>
#include <map>

#include "cc/analysis/row_types/laws.h"
#include "cc/analysis/row_types/rule.h"
#include "cc/analysis/row_types/slices.h"

namespace tensorbow {

namespace {

template <typename F>
RowType Map(const RowType& blocks, F change) {
  RowType mapped = blocks;
  for (auto& [at, piece] : mapped.blocks) {
    piece = change(piece);
    if (piece.unknown()) return piece;
  }
  return mapped;
}

RowType Sum(OpView& op, const Types& in) {
  std::map<Size, RowType> pieces;
  for (const RowType& type : in) {
    for (const auto& [at, piece] : type.blocks) {
      const auto [known, added] = pieces.emplace(at, piece);
      if (!added) known->second = Add(op, {known->second, piece});
      if (known->second.unknown()) return known->second;
    }
  }
  const auto first = std::find_if(in.begin(), in.end(), [](const RowType& type) {
    return type.is(RowKind::kBlocks);
  });
  RowType sum = *first;
  sum.blocks.assign(pieces.begin(), pieces.end());
  return sum;
}

// Returns the piece that a slice takes as a whole.
RowType Cut(OpView& op, const RowType& blocks, const Types& in) {
  SizeTable& sizes = op.sizes();
  for (size_t i = 1; i < in.size(); ++i) {
    if (!in[i].numbers.has_value()) return op.UnknownNumbers(in[i], "cuts rows");
  }
  if (!blocks.dims.has_value()) return op.Unknown("cuts rows of unknown rank");
  Size begin = kZeroSize, size = sizes.Constant(-1);
  if (op.op() == "Slice") {
    begin = (*in[1].numbers)[blocks.axis];
    size = (*in[2].numbers)[blocks.axis];
  } else {
    for (const StrideEntry& entry :
         StridesOf(op, blocks.rank(), *in[1].numbers, *in[2].numbers, *in[3].numbers)) {
      if (entry.axis != blocks.axis) continue;
      begin = entry.begin.value_or(kZeroSize);
      if (entry.end.has_value()) size = sizes.Minus(*entry.end, begin);
    }
  }
  for (const auto& [at, piece] : blocks.blocks) {
    if (!piece.dims.has_value() || piece.rank() <= blocks.axis) continue;
    const Size own = (*piece.dims)[blocks.axis];
    const bool to_end =
        sizes.Number(size) == -1 && sizes.Plus(at, own) == (*blocks.dims)[blocks.axis];
    if (begin == at && (size == own || to_end)) return piece;
  }
  return op.Unknown("slices rows together with other values");
}

}  // namespace

Types TypeBlocks(OpView& op, Types in) {
  const auto found = std::find_if(in.begin(), in.end(), [](const RowType& type) {
    return type.is(RowKind::kBlocks);
  });
  const int k = static_cast<int>(found - in.begin());
  const RowType blocks = *found;
  if (HandsOn(op.op()) || op.is({"Neg", "Cast"})) return {blocks};
  const auto is_narrow = [&](const RowType& type) {
    return type.is(RowKind::kSame) && type.dims.has_value() &&
           type.rank() < blocks.rank() - blocks.axis;
  };
  if (op.is({"Mul", "RealDiv"}) && k == 0 && is_narrow(in[1])) {
    return {Map(blocks, [&](const RowType& piece) {
      return Multiply(op, {piece, in[1]}, op.op() == "RealDiv");
    })};
  }
  if (op.op() == "Mul" && k == 1 && is_narrow(in[0])) {
    return {Map(blocks, [&](const RowType& piece) {
      return Multiply(op, {in[0], piece}, /*divides=*/false);
    })};
  }
  const auto alike = [&](const RowType& type) {
    return (type.is(RowKind::kBlocks) || type.is(RowKind::kZero)) &&
           type.dims == blocks.dims;
  };
  if (op.is({"Add", "AddN", "AddV2"}) && std::all_of(in.begin(), in.end(), alike)) {
    return {Sum(op, in)};
  }
  if (op.is({"Gather", "GatherV2", "ResourceGather"}) && k == 1 && blocks.axis == 0) {
    const Rule gather = RuleTable::Get().Find(op.op());
    RowType gathered = Map(blocks, [&](const RowType& piece) {
      Types with_piece = in;
      with_piece[1] = piece;
      return gather(op, with_piece)[0];
    });
    if (gathered.unknown() || !in[0].dims.has_value()) return {gathered};
    gathered.dims->insert(gathered.dims->end(), in[0].dims->begin() + 1,
                          in[0].dims->end());
    return {gathered};
  }
  if (op.op() == "Reshape" && k == 0 && in[1].numbers.has_value()) {
    const Sizes& shape = *in[1].numbers;
    const size_t kept = blocks.axis + 1;
    if (shape.size() >= kept &&
        std::equal(shape.begin(), shape.begin() + kept, blocks.dims->begin())) {
      RowType reshaped = Map(blocks, [&](const RowType& piece) {
        if (!piece.dims.has_value()) return piece;
        Sizes dims(piece.dims->begin(), piece.dims->begin() + kept);
        dims.insert(dims.end(), shape.begin() + kept, shape.end());
        return piece.WithDims(dims);
      });
      if (!reshaped.unknown()) reshaped.dims = shape;
      return {reshaped};
    }
  }
  if (op.is({"Slice", "StridedSlice"}) && k == 0) return {Cut(op, blocks, in)};
  if (op.is({"Unique", "UniqueV2"})) {
    RowType slots = Make(RowKind::kSlots);
    slots.variable = op.path();
    RowType places = blocks;
    places.own = {OwnPlaces::Kind::kSlot, kUnknownSize, op.path()};
    return {slots, places};
  }
  if (op.op() == "UnsortedSegmentSum" && in[1].is(RowKind::kBlocks) &&
      in[0].is(RowKind::kBlocks) && in[1].own.kind == OwnPlaces::Kind::kSlot) {
    std::optional<int> exponent;
    bool one = true;
    for (const auto& [at, piece] : in[0].blocks) {
      if (piece.is(RowKind::kZero)) continue;
      const int as_sum = piece.exponent + (piece.is(RowKind::kSame) ? 1 : 0);
      one &= exponent.value_or(as_sum) == as_sum;
      exponent = as_sum;
    }
    if (!one) return {op.Unknown("adds up slices of different scales")};
    RowType slotted = Make(RowKind::kSlotted, std::nullopt, exponent.value_or(1));
    slotted.variable = in[1].own.slots;
    return {slotted};
  }
  return {op.Unknown("has no rule for rows together with other values")};
}

}  // namespace tensorbow
