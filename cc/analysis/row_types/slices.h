// Slices by numbers of elements: of rows, of concatenations, of other tensors.
#ifndef TENSORBOW_CC_ANALYSIS_ROW_TYPES_SLICES_H_
#define TENSORBOW_CC_ANALYSIS_ROW_TYPES_SLICES_H_

#include <optional>
#include <vector>

#include "cc/analysis/row_types/rule.h"

namespace tensorbow {

// One entry of a StridedSlice, in the order of its result.
struct StrideEntry {
  std::optional<int> axis;  // of the input; nullopt: a new axis
  std::optional<Size> begin, end;
  Size step = kOneSize;
  bool shrinks = false;
};
std::vector<StrideEntry> StridesOf(const OpView& op, int rank, const Sizes& begin,
                                   const Sizes& end, const Sizes& step);
// Returns the size of an axis after the cut; unknown if it does not follow from
// constants.
Size SizeOfStride(SizeTable& sizes, Size size, const StrideEntry& entry);

// All rows, or one of the concatenated parts.
struct CutRows {
  Part part;
  Size size;
};
std::optional<CutRows> CutOfRows(SizeTable& sizes, const RowType& type, Size begin,
                                 Size size);
std::optional<CutRows> CutOfRows(SizeTable& sizes, const RowType& type,
                                 const StrideEntry& entry);

// Returns the type of a slice of `type`, which has no rows, by the other inputs.
RowType SliceOfOthers(OpView& op, const RowType& type, const Types& in);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_SLICES_H_
