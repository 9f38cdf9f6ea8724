// A matrix of which some rows are given and the others are zero, as one reads the
// gradient of weights that few features have touched. Pure functions.
#ifndef TENSORBOW_CC_ARITHMETIC_SOME_ROWS_H_
#define TENSORBOW_CC_ARITHMETIC_SOME_ROWS_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace tensorbow {

template <typename T>
struct SomeRows {
  const int64_t* rows;  // ascending, each once
  int64_t count;
  int64_t row_size;  // elements, >= 1
  const T* values;   // the rows given, one after the other
};

// out ← elements [begin, end) of the matrix.
template <typename T>
void Spread(const SomeRows<T>& matrix, int64_t begin, int64_t end, T* out);

// What of the elements [begin, end) any of the matrices, which are alike, has rows
// for: {begin, end} of each part, ascending.
template <typename T>
std::vector<std::pair<int64_t, int64_t>> PartsWithRows(
    const std::vector<SomeRows<T>>& matrices, int64_t begin, int64_t end);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_SOME_ROWS_H_
