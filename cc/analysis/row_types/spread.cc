// The law of elementwise functions: rows if any input has rows.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "cc/analysis/row_types/laws.h"

namespace tensorbow {

namespace {

// Returns whether the type has no elementwise result, since its values are not the
// tensor's elements.
bool IsStructure(const RowType& type) {
  return type.is(RowKind::kSizes) || type.is(RowKind::kAxes) ||
         type.is(RowKind::kSlots) || type.is(RowKind::kSlotted) ||
         type.is(RowKind::kOfSlots) || type.is(RowKind::kList) ||
         type.is(RowKind::kBlocks);
}

// Returns the sizes of a broadcast, from the right; unknown if an input's are.
Sizes Broadcast(const Types& in, int rank, const SizeTable& sizes) {
  Sizes dims(rank, kOneSize);
  for (int d = 1; d <= rank; ++d) {
    Size& dim = dims[rank - d];
    std::vector<Size> found;
    for (const RowType& type : in) {
      if (!type.dims.has_value() || type.rank() < d) continue;
      const Size size = (*type.dims)[type.rank() - d];
      if (sizes.HasRows(size)) {
        found.assign(1, size);
        break;
      }
      if (size != kOneSize) found.push_back(size);
    }
    if (found.empty()) continue;
    dim = found[0];
    if (std::all_of(found.begin(), found.end(), [&](Size s) { return s == dim; })) {
      continue;
    }
    const auto number = std::find_if(found.begin(), found.end(), [&](Size size) {
      return sizes.Number(size).value_or(0) != 0;
    });
    dim = number == found.end() ? kUnknownSize : *number;
  }
  return dims;
}

Uniform UniformOf(const Types& in, int rank) {
  if (in.empty() || rank == 0) return Uniform::kNo;
  bool everywhere = true, along = true;
  for (const RowType& type : in) {
    if (!type.dims.has_value()) return Uniform::kNo;
    const bool single = std::all_of(type.dims->begin(), type.dims->end(),
                                    [](Size size) { return size == kOneSize; });
    everywhere &= type.uniform == Uniform::kEverywhere || single;
    along &= type.uniform != Uniform::kNo || single || type.rank() < rank ||
             (*type.dims)[0] == kOneSize;
  }
  return everywhere ? Uniform::kEverywhere : along ? Uniform::kAlongRows : Uniform::kNo;
}

// Returns the uniformity of rows made of these inputs.
Uniform UniformOfRows(const Types& in) {
  Uniform least = Uniform::kEverywhere;
  bool others_vary = false;
  for (const RowType& type : in) {
    if (type.is(RowKind::kRows)) {
      least = std::min(least, type.uniform);
    } else if (type.is(RowKind::kSame)) {
      const bool scalar = type.dims.has_value() && type.dims->empty();
      others_vary |= !scalar && type.uniform != Uniform::kEverywhere;
    }
  }
  return others_vary ? std::min(least, Uniform::kAlongRows) : least;
}

}  // namespace

std::optional<Size> CountOfEqual(const std::set<Size>& counts, SizeTable& sizes) {
  if (counts.empty()) return kUnknownSize;
  Size least = *counts.begin();
  for (Size count : counts) {
    if (sizes.IsOfFeed(sizes.Over(least, count))) least = count;
  }
  for (Size count : counts) {
    if (count != least && !sizes.IsOfFeed(sizes.Over(count, least)))
      return std::nullopt;
  }
  return least;
}

RowType Spread(OpView& op, Types in, int exponent, RowKind kind) {
  if (const RowType* unknown = FirstUnknown(in)) return *unknown;
  const SizeTable& sizes = op.sizes();
  in.erase(std::remove_if(in.begin(), in.end(),
                          [](const RowType& t) { return t.is(RowKind::kHandle); }),
           in.end());
  bool of_all_rows = false;
  for (RowType& type : in) {
    if (kind != RowKind::kZero) type = AsRows(type, sizes);
    if (IsStructure(type)) return op.Unknown("has no rule for an input of this kind");
    of_all_rows |= type.of_all_rows;
  }
  Types live, rows;
  for (const RowType& type : in) {
    if (!type.is(RowKind::kZero)) live.push_back(type);
    if (type.is(RowKind::kRows)) rows.push_back(type);
  }
  if (live.empty()) live = in;
  RowType result = Make(kind, std::nullopt, exponent);
  result.of_all_rows = of_all_rows;
  for (const RowType& type : live) {
    if (type.dims.has_value()) continue;
    return rows.empty() ? result : op.Unknown("has an input of unknown rank");
  }
  int rank = 0;
  for (const RowType& type : in) {
    if (type.dims.has_value()) rank = std::max(rank, type.rank());
  }
  Sizes dims = Broadcast(in, rank, sizes);
  if (rows.empty()) {
    result.uniform = UniformOf(in, rank);
    result.dims = std::move(dims);
    return result;
  }
  std::set<std::pair<int, Part>> places;
  std::set<Size> counts;
  for (const RowType& type : rows) {
    places.insert({type.axis - type.rank(), PartAmong(type, rows)});
    const Size count = (*type.dims)[type.axis];
    if (count.known()) counts.insert(count);
  }
  if (places.size() > 1) {
    return op.Unknown(
        "combines rows with rows on another axis or of another selection");
  }
  const std::optional<Size> count = CountOfEqual(counts, op.sizes());
  if (!count.has_value())
    return op.Unknown("combines rows with another number of rows");
  const auto [axis, part] = *places.begin();  // counted from the right
  for (const RowType& type : in) {
    if (type.is(RowKind::kRows) || !type.dims.has_value() || type.rank() < -axis) {
      continue;
    }
    const Size size = (*type.dims)[type.rank() + axis];
    const std::optional<int64_t> number = sizes.Number(size);
    if (!size.known() || (type.of_all_rows && !number.has_value()) ||
        sizes.IsOfFeed(size) || sizes.CountsAll(size)) {
      return op.Unknown(
          "combines rows with a tensor that may have an element for each row of the "
          "batch");
    }
    if (number.has_value() && *number > 1) {
      return op.Unknown(
          absl::StrCat("combines rows with a constant of size ", *number));
    }
  }
  const bool all_any = std::all_of(rows.begin(), rows.end(), [](const RowType& type) {
    return type.part == kAnyRows;
  });
  dims[rank + axis] = *count;
  result = MakeRows(rank + axis, all_any ? kAnyRows : part, std::move(dims), exponent);
  result.uniform = UniformOfRows(in);
  return result;
}

}  // namespace tensorbow
