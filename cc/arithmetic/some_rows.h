// A matrix of which some rows are given and the others are zero: the gradient of
// weights of which a batch uses few rows. Pure functions.
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
  const T* values;   // the given rows, one after the other
};

// out ← elements [begin, end) of the matrix.
template <typename T>
void Spread(const SomeRows<T>& matrix, int64_t begin, int64_t end, T* out);

// Returns the parts of elements [begin, end) that lie in rows of any of the matrices,
// as {begin, end}, ascending. The matrices have the same shape.
template <typename T>
std::vector<std::pair<int64_t, int64_t>> PartsWithRows(
    const std::vector<SomeRows<T>>& matrices, int64_t begin, int64_t end);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_SOME_ROWS_H_
