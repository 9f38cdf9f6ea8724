// Ops that cut, pad or reverse tensors.
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
  if (!cut.has_value()) return {op.Unknown("selects rows by their positions")};
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
  if (type.is(RowKind::kSizes)) return {op.Unknown("takes a slice of unknown size")};
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
      if (!rows.has_value()) return {op.Unknown("selects rows by their positions")};
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
      return {op.Unknown("inserts a value without rows among rows")};
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
        return {op.Unknown("inserts rows among other values")};
      }
      type = type.Plain();
      type.axis = *entry.axis;
      type.dims = dims;
      return {type};
    }
    ++at;
  }
  return {op.Unknown("removes the axis of rows")};
}

// Types one block among zeros.
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
    if (op.Flat(2, in[2]).is(RowKind::kRows))
      return {op.Unknown("pads with values of rows")};
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
      return {op.Unknown("reorders the rows")};
    }
  }
  return {type.Plain()};
}

Types ReverseSequence(OpView& op, Types in) {
  const RowType lengths = op.Flat(1, in[1]);
  if (lengths.unknown()) return {lengths};
  RowType type = in[0];
  if (type.is(RowKind::kRows) && type.axis != op.Attr<int64_t>("batch_dim", 0)) {
    return {op.Unknown("reorders the rows")};
  }
  if (!type.is(RowKind::kRows) && lengths.is(RowKind::kRows)) {
    return {op.Unknown("combines rows with a constant that has as many elements")};
  }
  return {type.Plain()};
}

}  // namespace

void AddCutRules(RuleTable* rules) {
  rules->Set({"Slice"}, &SliceOp);
  rules->Set({"StridedSlice"}, &StridedSlice);
  rules->Set({"StridedSliceGrad"}, &StridedSliceGrad);
  rules->Set({"MirrorPad", "MirrorPadGrad", "Pad", "PadV2"}, &Pad);
  rules->Set({"Reverse", "ReverseV2"}, &Reverse);
  rules->Set({"ReverseSequence"}, &ReverseSequence);
}

}  // namespace tensorbow
