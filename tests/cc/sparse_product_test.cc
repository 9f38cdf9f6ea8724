// The rows of aᵀ·b that are not empty, and reads of a matrix of some rows.
#include "cc/arithmetic/sparse_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "cc/arithmetic/some_rows.h"

namespace tensorbow {
namespace {

using Parts = std::vector<std::pair<int64_t, int64_t>>;

// The number of columns, so that column numbers have several digits of the sort.
constexpr int64_t kColumns = 3 << 22;

TEST(SparseProductTest, RowsOfColumnsWithEntriesAreSummedInOrder) {
  // Three rows; columns in no order, one of them twice in one row.
  const std::vector<int64_t> indices = {0, 4097, 0, 1,    1, kColumns - 1,
                                        1, 4097, 2, 4097, 2, 4097};
  const std::vector<float> values = {1, 2, 3, 4, 0.5f, -1};
  const std::vector<float> b = {1, 10, 2, 20, 4, 40};
  const SparseProduct::Factors factors{indices.data(), values.data(), 6, 3,
                                       kColumns,       b.data(),      2};
  EXPECT_EQ(SparseProduct::FirstOutside(factors), -1);
  const SparseProduct product(factors);
  EXPECT_EQ(product.rows(), std::vector<int64_t>({1, 4097, kColumns - 1}));
  std::vector<float> out(6, -7);
  product.Compute(out.data());
  // Column 4097: 1·b0 + 4·b1 + 0.5·b2 − 1·b2 = 1 + 8 + 2 − 4.
  EXPECT_EQ(out, std::vector<float>({2, 20, 7, 70, 6, 60}));
}

TEST(SparseProductTest, TheWholeProductIsThatOfDenseMatrices) {
  // a = [0 2 0; 3 0 −1], entries in no order, the 2 in two parts.
  const std::vector<int64_t> indices = {1, 2, 0, 1, 1, 0, 0, 1};
  const std::vector<float> values = {-1, 0.5f, 3, 1.5f};
  const std::vector<float> b = {1, 10, 2, 20, 4, 40};
  std::vector<float> out(4, -7);
  SparseProduct::Whole({indices.data(), values.data(), 4, 2, 3, b.data(), 2},
                       /*transposed=*/false, out.data());
  EXPECT_EQ(out, std::vector<float>({4, 40, -1, -10}));
  out.assign(6, -7);
  SparseProduct::Whole({indices.data(), values.data(), 4, 2, 3, b.data(), 2},
                       /*transposed=*/true, out.data());
  EXPECT_EQ(out, std::vector<float>({6, 60, 2, 20, -2, -20}));
}

TEST(SparseProductTest, SumsHaveTheRoundingOfTheirOrder) {
  const std::vector<int64_t> indices = {0, 5, 1, 5, 2, 5};
  const std::vector<float> values = {1, 1, 1};
  const std::vector<float> b = {1e8f, 1, -1e8f};
  const SparseProduct product({indices.data(), values.data(), 3, 3, 6, b.data(), 1});
  float sum = -7;
  product.Compute(&sum);
  EXPECT_EQ(sum, 0);  // (1e8 + 1) − 1e8 in single precision
}

TEST(SparseProductTest, ASumBeginsWithZero) {
  const std::vector<int64_t> indices = {0, 0};
  const float value = 1, b = -0.0f;
  const SparseProduct product({indices.data(), &value, 1, 1, 1, &b, 1});
  float sum = -7;
  product.Compute(&sum);
  EXPECT_FALSE(std::signbit(sum));
}

TEST(SparseProductTest, EntriesOutsideAreFound) {
  const float value = 1, b = 1;
  const std::vector<std::vector<int64_t>> outside = {{-1, 0}, {1, 0}, {0, -1}, {0, 4}};
  for (const std::vector<int64_t>& entry : outside) {
    std::vector<int64_t> indices = {0, 3};
    indices.insert(indices.end(), entry.begin(), entry.end());
    const std::vector<float> values(2, value);
    EXPECT_EQ(
        SparseProduct::FirstOutside({indices.data(), values.data(), 2, 1, 4, &b, 1}),
        1);
  }
}

TEST(SparseProductTest, NoEntriesMakeNoRows) {
  const float b = 1;
  const SparseProduct product({nullptr, nullptr, 0, 1, 4, &b, 1});
  EXPECT_TRUE(product.rows().empty());
}

TEST(SomeRowsTest, AnyPartIsThatOfTheWholeMatrix) {
  const std::vector<int64_t> rows = {1, 2, 4};
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const SomeRows<float> matrix{rows.data(), 3, 3, values.data()};
  const std::vector<float> whole = {0, 0, 0, 1, 2, 3, 4, 5, 6,
                                    0, 0, 0, 7, 8, 9, 0, 0, 0};
  const auto size = static_cast<int64_t>(whole.size());
  for (int64_t begin = 0; begin < size; ++begin) {
    for (int64_t end = begin; end <= size; ++end) {
      std::vector<float> part(end - begin, -7);
      Spread(matrix, begin, end, part.data());
      EXPECT_EQ(part, std::vector<float>(whole.begin() + begin, whole.begin() + end));
    }
  }
}

TEST(SomeRowsTest, PartsAreWhereAnyMatrixHasRows) {
  const std::vector<int64_t> rows = {0, 3}, others = {1, 7};
  const std::vector<float> values(4);
  const SomeRows<float> one{rows.data(), 2, 2, values.data()};
  const SomeRows<float> other{others.data(), 2, 2, values.data()};
  EXPECT_EQ(PartsWithRows<float>({one}, 0, 20), Parts({{0, 2}, {6, 8}}));
  EXPECT_EQ(PartsWithRows<float>({one, other}, 0, 20),
            Parts({{0, 4}, {6, 8}, {14, 16}}));
  EXPECT_EQ(PartsWithRows<float>({one, other}, 3, 15),
            Parts({{3, 4}, {6, 8}, {14, 15}}));
  EXPECT_EQ(PartsWithRows<float>({one, one}, 0, 7), Parts({{0, 2}, {6, 7}}));
  EXPECT_EQ(PartsWithRows<float>({one, other}, 8, 14), Parts());
}

}  // namespace
}  // namespace tensorbow
