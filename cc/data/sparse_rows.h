// Compressed sparse rows as they lie in memory, and a batch of them in the order of
// coordinates, as TensorFlow's sparse tensors have it. No TensorFlow. A view: what it
// points to outlives it, and is not changed meanwhile. Pure functions.
#ifndef TENSORBOW_CC_DATA_SPARSE_ROWS_H_
#define TENSORBOW_CC_DATA_SPARSE_ROWS_H_

#include <cstdint>

namespace tensorbow {

// Row i has columns[ends[i]] to columns[ends[i + 1] - 1].
struct SparseRows {
  const int64_t* ends = nullptr;
  int64_t num_rows = 0;  // one less than there are ends
  const int64_t* columns = nullptr;
  int64_t num_columns = 0;  // in memory
  int64_t width = 0;        // of the rows

  // Whether rows end one after the other, where the columns do, with columns from 0 to
  // below the width. REQUIRES of all others.
  bool IsValid() const;
  // Where the values of rows `begin` to before `end` begin, and how many there are.
  int64_t First(int64_t begin) const { return ends[begin]; }
  int64_t Count(int64_t begin, int64_t end) const { return ends[end] - ends[begin]; }
  // Pairs of a row, from 0 for `begin`, and a column, for all values before `end`.
  void WriteIndices(int64_t begin, int64_t end, int64_t* pairs) const;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DATA_SPARSE_ROWS_H_
