// The correction around an update of some rows: every element is corrected once, by its
// value before.
#include "cc/arithmetic/sparse_correction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tensorbow {
namespace {

constexpr int64_t kRows = 5, kRowSize = 3, kSize = kRows * kRowSize;

// Sets the rows to 100 as an update, with slices of `slice` elements in between rows;
// all arithmetic is exact.
std::vector<float> Corrected(std::vector<int64_t> rows, int64_t slice) {
  std::vector<float> w(kSize), z(kSize, 8);
  for (int64_t i = 0; i < kSize; ++i) w[i] = static_cast<float>(i);
  const Pull<float> pull{z.data(), 0.5f};
  SparseCorrection<float> correction(rows, kRows, kRowSize, pull, w.data());
  for (int64_t begin = 0; begin < kSize; begin += slice) {
    correction.BeforeUpdate(begin, std::min(kSize, begin + slice));
  }
  for (int64_t row : rows) {
    if (row < 0 || row >= kRows) continue;
    for (int64_t i = row * kRowSize; i < (row + 1) * kRowSize; ++i) {
      EXPECT_EQ(w[i], static_cast<float>(i)) << "before the update";
    }
  }
  for (int64_t row : rows) {
    if (row < 0 || row >= kRows) continue;
    std::fill_n(w.begin() + row * kRowSize, kRowSize, 100.0f);
  }
  correction.AfterUpdate();
  return w;
}

std::vector<float> Expected(const std::vector<int64_t>& rows) {
  std::vector<float> w(kSize);
  for (int64_t i = 0; i < kSize; ++i) {
    const bool updated = std::count(rows.begin(), rows.end(), i / kRowSize) > 0;
    const float before = static_cast<float>(i);
    w[i] = (updated ? 100.0f : before) - 0.5f * (before - 8);
  }
  return w;
}

TEST(SparseCorrectionTest, CorrectsEveryElementOnceHoweverSlicesAndRowsMeet) {
  const std::vector<std::vector<int64_t>> choices = {
      {}, {0}, {4}, {2}, {1, 2}, {0, 4}, {3, 0, 3, 3}, {4, 3, 2, 1, 0}};
  for (const std::vector<int64_t>& rows : choices) {
    for (int64_t slice = 1; slice <= kSize; ++slice) {
      EXPECT_EQ(Corrected(rows, slice), Expected(rows)) << "slices of " << slice;
    }
  }
}

TEST(SparseCorrectionTest, LeavesRowsOutsideOfTheVariableToTheUpdate) {
  EXPECT_EQ(Corrected({-1, 2, kRows, int64_t{1} << 60}, 4), Expected({2}));
}

}  // namespace
}  // namespace tensorbow
