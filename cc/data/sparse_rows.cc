#include "cc/data/sparse_rows.h"

#include <algorithm>

namespace tensorbow {

bool SparseRows::IsValid() const {
  if (num_rows < 0 || ends[0] != 0 || ends[num_rows] != num_columns) return false;
  if (!std::is_sorted(ends, ends + num_rows + 1)) return false;
  bool inside = true;  // no early exit, so that the loop is vectorised
  for (int64_t i = 0; i < num_columns; ++i) {
    inside &= static_cast<uint64_t>(columns[i]) < static_cast<uint64_t>(width);
  }
  return inside;
}

void SparseRows::WriteIndices(int64_t begin, int64_t end, int64_t* pairs) const {
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t i = ends[row]; i < ends[row + 1]; ++i) {
      *pairs++ = row - begin;
      *pairs++ = columns[i];
    }
  }
}

}  // namespace tensorbow
