#include "cc/data/sparse_rows.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tensorbow {
namespace {

// The memory that a test changes, and a view of it.
struct Memory {
  std::vector<int64_t> ends = {0, 2, 2, 3};
  std::vector<int64_t> columns = {1, 4, 0};

  SparseRows View() const {
    return {ends.data(), static_cast<int64_t>(ends.size()) - 1, columns.data(),
            static_cast<int64_t>(columns.size()), 5};
  }
};

std::vector<int64_t> Indices(const SparseRows& rows, int64_t begin, int64_t end) {
  std::vector<int64_t> pairs(2 * rows.Count(begin, end));
  rows.WriteIndices(begin, end, pairs.data());
  return pairs;
}

TEST(SparseRowsTest, BatchesCountTheirRowsFromZero) {
  const Memory memory;
  const SparseRows rows = memory.View();
  ASSERT_TRUE(rows.IsValid());
  EXPECT_EQ(Indices(rows, 0, 3), (std::vector<int64_t>{0, 1, 0, 4, 2, 0}));
  EXPECT_EQ(Indices(rows, 1, 3), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(rows.First(1), 2);
  EXPECT_TRUE(Indices(rows, 1, 2).empty());
}

TEST(SparseRowsTest, RowsMayAllBeEmpty) {
  Memory memory;
  memory.ends = {0, 0, 0};
  memory.columns = {};
  EXPECT_TRUE(memory.View().IsValid());
  memory.ends = {0};
  EXPECT_TRUE(memory.View().IsValid());
}

TEST(SparseRowsTest, RowsThatDoNotFitTogetherAreNotValid) {
  const std::vector<std::vector<int64_t>> wrong = {
      {1, 2, 2, 3},  // does not start at 0
      {0, 2, 1, 3},  // descends
      {0, 2, 2, 4},  // ends after the columns
      {0, 2, 2, 2},  // ends before them
      {},
  };
  for (const std::vector<int64_t>& ends : wrong) {
    Memory memory;
    memory.ends = ends;
    EXPECT_FALSE(memory.View().IsValid());
  }
  for (const int64_t column : {int64_t{-1}, int64_t{5}}) {
    Memory memory;
    memory.columns[1] = column;
    EXPECT_FALSE(memory.View().IsValid());
  }
}

}  // namespace
}  // namespace tensorbow
