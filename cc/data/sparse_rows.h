// A view of compressed sparse rows, and copies of batches in coordinate order, the
// order of TensorFlow's sparse tensors. No TensorFlow. The memory outlives the view and
// does not change meanwhile. Pure functions.
#ifndef TENSORBOW_CC_DATA_SPARSE_ROWS_H_
#define TENSORBOW_CC_DATA_SPARSE_ROWS_H_

#include <cstdint>

namespace tensorbow {

// Row i has columns[ends[i]] to columns[ends[i + 1] - 1].
struct SparseRows {
  const int64_t* ends = nullptr;
  int64_t num_rows = 0;  // one less than the number of ends
  const int64_t* columns = nullptr;
  int64_t num_columns = 0;  // in memory
  int64_t width = 0;        // of the rows

  // Returns whether the ends ascend to the number of columns, and columns are between 0
  // and the width. REQUIRES: IsValid(), for all other functions.
  bool IsValid() const;
  // The first value of rows [begin, end), and the number of their values.
  int64_t First(int64_t begin) const { return ends[begin]; }
  int64_t Count(int64_t begin, int64_t end) const { return ends[end] - ends[begin]; }
  // Writes pairs of row and column for all values of rows [begin, end); the first row
  // is 0.
  void WriteIndices(int64_t begin, int64_t end, int64_t* pairs) const;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DATA_SPARSE_ROWS_H_
