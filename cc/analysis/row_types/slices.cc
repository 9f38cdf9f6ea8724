#include "cc/analysis/row_types/slices.h"

#include <algorithm>

namespace tensorbow {

std::vector<StrideEntry> StridesOf(const OpView& op, int rank, const Sizes& begin,
                                   const Sizes& end, const Sizes& step) {
  const auto mask = [&op](absl::string_view name, size_t k) {
    return (op.Attr<int64_t>(name, 0) >> k & 1) != 0;
  };
  const size_t count = begin.size();
  int used = 0;
  for (size_t k = 0; k < count; ++k) {
    if (!mask("new_axis_mask", k) && !mask("ellipsis_mask", k)) ++used;
  }
  std::vector<StrideEntry> entries;
  int axis = 0;
  const auto whole_axis = [&] {
    StrideEntry entry;
    entry.axis = axis++;
    entries.push_back(entry);
  };
  for (size_t k = 0; k < count; ++k) {
    if (mask("ellipsis_mask", k)) {
      for (int d = used; d < rank; ++d) whole_axis();
      continue;
    }
    StrideEntry entry;
    if (!mask("new_axis_mask", k)) {
      entry.shrinks = mask("shrink_axis_mask", k);
      entry.axis = axis++;
      if (!mask("begin_mask", k) || entry.shrinks) entry.begin = begin[k];
      if (!mask("end_mask", k)) entry.end = end[k];
      entry.step = step[k];
    }
    entries.push_back(entry);
  }
  while (axis < rank) whole_axis();
  return entries;
}

Size SizeOfStride(SizeTable& sizes, Size size, const StrideEntry& entry) {
  const std::optional<int64_t> step = sizes.Number(entry.step);
  if (!entry.begin.has_value() && !entry.end.has_value() && step == 1) return size;
  const std::optional<int64_t> all = sizes.Number(size);
  const std::optional<int64_t> begin =
      entry.begin.has_value() ? sizes.Number(*entry.begin) : 0;
  const std::optional<int64_t> end =
      entry.end.has_value() ? sizes.Number(*entry.end) : all;
  if (!all.has_value() || !begin.has_value() || !end.has_value() || !step.has_value() ||
      *step <= 0) {
    return kUnknownSize;
  }
  const auto place = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + *all : at, 0, *all);
  };
  const int64_t length = std::max<int64_t>(0, place(*end) - place(*begin));
  return sizes.Constant((length + *step - 1) / *step);
}

std::optional<CutRows> CutOfRows(SizeTable& sizes, const RowType& type, Size begin,
                                 Size size) {
  const Size all = (*type.dims)[type.axis];
  if (begin == kZeroSize && (size == all || sizes.Number(size) == -1)) {
    return CutRows{type.part, all};
  }
  const SizeTable::PartInfo info = sizes.Info(type.part);
  if (info.kind != SizeTable::PartInfo::Kind::kConcatenated) return std::nullopt;
  Size total = kZeroSize;
  for (const auto& [part, piece] : info.pieces) total = sizes.Plus(total, piece);
  Size unit = sizes.Over(all, total);
  if (!unit.known()) unit = kOneSize;
  Size at = kZeroSize;
  for (const auto& [part, piece] : info.pieces) {
    const Size length = sizes.Times(piece, unit);
    if (begin == at && size == length) return CutRows{part, length};
    at = sizes.Plus(at, length);
  }
  return std::nullopt;
}

std::optional<CutRows> CutOfRows(SizeTable& sizes, const RowType& type,
                                 const StrideEntry& entry) {
  const Size all = (*type.dims)[type.axis];
  if (entry.shrinks || sizes.Number(entry.step) != 1) return std::nullopt;
  const Size begin = entry.begin.value_or(kZeroSize), end = entry.end.value_or(all);
  for (Size place : {begin, end}) {
    if (sizes.Number(place).value_or(0) < 0) return std::nullopt;
  }
  return CutOfRows(sizes, type, begin, sizes.Minus(end, begin));
}

namespace {

// Returns the sizes of `type` with 1 on an axis that is cut to its first element;
// nullopt for other cuts.
std::optional<Sizes> DimsOfFirst(OpView& op, const RowType& type, const Types& in) {
  if (op.op() != "StridedSlice" || !type.dims.has_value()) return std::nullopt;
  for (size_t i = 1; i < in.size(); ++i) {
    if (!in[i].numbers.has_value()) return std::nullopt;
  }
  Sizes dims = *type.dims;
  for (const StrideEntry& entry :
       StridesOf(op, type.rank(), *in[1].numbers, *in[2].numbers, *in[3].numbers)) {
    if (!entry.axis.has_value() || entry.shrinks || entry.step != kOneSize) {
      return std::nullopt;
    }
    const bool from_start = entry.begin.value_or(kZeroSize) == kZeroSize;
    if (from_start && !entry.end.has_value()) continue;
    if (!from_start || entry.end != kOneSize) return std::nullopt;
    dims[*entry.axis] = kOneSize;
  }
  return dims;
}

}  // namespace

RowType SliceOfOthers(OpView& op, const RowType& type, const Types& in) {
  for (size_t i = 1; i < in.size(); ++i) {
    const RowType& by = in[i];
    const bool is_same = by.is(RowKind::kSame) && by.exponent == 0;  // perhaps of all
    bool of_rows = by.sizes_rows() &&
                   !(by.is(RowKind::kSizes) && by.numbers.has_value()) &&
                   !(is_same && type.is(RowKind::kSame) && op.gathers());
    if (by.numbers.has_value()) {
      for (Size number : *by.numbers) {
        of_rows |= !number.known() || op.sizes().HasRows(number);
      }
    }
    if (of_rows) return op.Unknown("cuts a tensor by the number of rows");
  }
  RowType cut = type.Plain();
  cut.dims = DimsOfFirst(op, type, in);
  cut.uniform = Uniform::kNo;
  return cut;
}

}  // namespace tensorbow
