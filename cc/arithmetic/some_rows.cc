#include "cc/arithmetic/some_rows.h"

#include <algorithm>

#include "cc/support/element.h"

namespace tensorbow {
namespace {

// Returns the first given row with elements from `begin` on.
template <typename T>
int64_t FirstRow(const SomeRows<T>& matrix, int64_t begin) {
  const int64_t* const end = matrix.rows + matrix.count;
  return std::lower_bound(matrix.rows, end, begin / matrix.row_size) - matrix.rows;
}

}  // namespace

template <typename T>
void Spread(const SomeRows<T>& matrix, int64_t begin, int64_t end, T* out) {
  const int64_t size = matrix.row_size;
  int64_t at = begin;  // elements before it have been written
  for (int64_t i = FirstRow(matrix, begin); i < matrix.count; ++i) {
    const int64_t row = matrix.rows[i] * size;
    if (row >= end) break;
    const int64_t first = std::max(row, begin), last = std::min(row + size, end);
    std::fill(out + (at - begin), out + (first - begin), T(0));
    const T* const values = matrix.values + i * size;
    std::copy(values + (first - row), values + (last - row), out + (first - begin));
    at = last;
  }
  std::fill(out + (at - begin), out + (end - begin), T(0));
}

template <typename T>
std::vector<std::pair<int64_t, int64_t>> PartsWithRows(
    const std::vector<SomeRows<T>>& matrices, int64_t begin, int64_t end) {
  std::vector<std::pair<int64_t, int64_t>> all, parts;
  for (const SomeRows<T>& matrix : matrices) {
    for (int64_t i = FirstRow(matrix, begin); i < matrix.count; ++i) {
      const int64_t row = matrix.rows[i] * matrix.row_size;
      if (row >= end) break;
      all.emplace_back(std::max(row, begin), std::min(row + matrix.row_size, end));
    }
  }
  if (matrices.size() > 1) std::sort(all.begin(), all.end());
  for (const auto& part : all) {
    if (!parts.empty() && parts.back().second >= part.first) {
      parts.back().second = std::max(parts.back().second, part.second);
    } else {
      parts.push_back(part);
    }
  }
  return parts;
}

#define TENSORBOW_SOME_ROWS(T)                                     \
  template void Spread(const SomeRows<T>&, int64_t, int64_t, T*);  \
  template std::vector<std::pair<int64_t, int64_t>> PartsWithRows( \
      const std::vector<SomeRows<T>>&, int64_t, int64_t);
TENSORBOW_SOME_ROWS(float)
TENSORBOW_SOME_ROWS(double)
TENSORBOW_SOME_ROWS(Half)
TENSORBOW_SOME_ROWS(Bfloat16)
#undef TENSORBOW_SOME_ROWS

}  // namespace tensorbow
