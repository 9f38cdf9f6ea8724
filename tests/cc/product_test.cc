#include "cc/arithmetic/product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "tests/cc/products.h"

namespace tensorbow {
namespace {

struct Shape {
  int64_t rows, inner, columns;
};

class ProductTest : public testing::TestWithParam<std::tuple<Shape, bool>> {
 protected:
  ProductTest()
      : shape_(std::get<0>(GetParam())),
        transposed_(std::get<1>(GetParam())),
        a_(Random(shape_.rows * shape_.inner)),
        b_(Random(shape_.inner * shape_.columns)),
        factors_{a_.data(),   transposed_,  b_.data(),
                 shape_.rows, shape_.inner, shape_.columns},
        workspace_(Product::WorkspaceSize(factors_), NAN),
        scratch_(Product::kScratchSize, NAN) {}

  float A(int64_t i, int64_t k) const {
    return transposed_ ? a_[k * shape_.rows + i] : a_[i * shape_.inner + k];
  }

  const Shape shape_;
  const bool transposed_;
  const std::vector<float> a_, b_;
  const Product::Factors factors_;
  std::vector<float> workspace_, scratch_;
};

TEST_P(ProductTest, SumsInOrderWithOneRoundingEach) {
  const Product product(factors_, workspace_.data());
  std::vector<float> c(shape_.rows * shape_.columns, NAN);
  product.Rows(0, shape_.rows, scratch_.data(), c.data());
  for (int64_t i = 0; i < shape_.rows; ++i) {
    for (int64_t j = 0; j < shape_.columns; ++j) {
      float fused = 0;
      double sum = 0, size = 0;
      for (int64_t k = 0; k < shape_.inner; ++k) {
        const float b = b_[k * shape_.columns + j];
        fused = std::fma(A(i, k), b, fused);
        sum += double{A(i, k)} * b;
        size += std::abs(double{A(i, k)} * b);
      }
      const float actual = c[i * shape_.columns + j];
      if (HasMultiplyAdd()) {
        ASSERT_EQ(actual, fused) << i << ", " << j;
      }
      ASSERT_NEAR(actual, sum, size * shape_.inner * 0x1p-23) << i << ", " << j;
    }
  }
}

TEST_P(ProductTest, RowsDoNotDependOnHowTheyAreDivided) {
  const Product product(factors_, workspace_.data());
  std::vector<float> whole(shape_.rows * shape_.columns), parts = whole;
  product.Rows(0, shape_.rows, scratch_.data(), whole.data());
  const int64_t step = shape_.rows > 100 ? 37 : 3;
  for (int64_t row = 0; row < shape_.rows; row += step) {
    product.Rows(row, std::min(shape_.rows, row + step), scratch_.data(),
                 parts.data() + row * shape_.columns);
  }
  EXPECT_EQ(parts, whole);
}

TEST_P(ProductTest, WritesNothingBeyondItsRows) {
  const Product product(factors_, workspace_.data());
  std::vector<float> c((shape_.rows + 1) * shape_.columns, 7);
  product.Rows(0, shape_.rows, scratch_.data(), c.data());
  for (int64_t j = 0; j < shape_.columns; ++j) {
    EXPECT_EQ(c[shape_.rows * shape_.columns + j], 7);
  }
}

// As when rows of the batch lie in several places.
TEST_P(ProductTest, SumsGoOnFromWhatIsThere) {
  const std::vector<float> a = Random(2 * shape_.rows), b = Random(2 * shape_.columns);
  std::vector<float> more_a(a);
  if (!transposed_) {
    for (int64_t i = 0; i < shape_.rows; ++i) {
      for (int k = 0; k < 2; ++k) more_a[2 * i + k] = a[k * shape_.rows + i];
    }
  }
  const Product::Factors more{more_a.data(), transposed_, b.data(),
                              shape_.rows,   2,           shape_.columns};
  std::vector<float> workspace(Product::WorkspaceSize(more));
  const Product first(factors_, workspace_.data()), second(more, workspace.data());
  std::vector<float> c(shape_.rows * shape_.columns, NAN);
  first.Rows(0, shape_.rows, scratch_.data(), c.data());
  const std::vector<float> before = c;
  second.AddRows(0, shape_.rows, scratch_.data(), c.data());
  for (int64_t i = 0; i < shape_.rows; ++i) {
    for (int64_t j = 0; j < shape_.columns; ++j) {
      float sum = before[i * shape_.columns + j];
      const float size = std::abs(sum) + 10;
      for (int k = 0; k < 2; ++k) {
        sum = std::fma(a[k * shape_.rows + i], b[k * shape_.columns + j], sum);
      }
      const float actual = c[i * shape_.columns + j];
      if (HasMultiplyAdd()) {
        ASSERT_EQ(actual, sum) << i << ", " << j;
      }
      ASSERT_NEAR(actual, sum, size * 0x1p-21);
    }
  }
}

// Whole and partial blocks of rows and columns; more rows and more inner elements than
// are handled at once; a batch of one row and of none.
INSTANTIATE_TEST_SUITE_P(
    Shapes, ProductTest,
    testing::Combine(testing::Values(Shape{8, 4, 128}, Shape{7, 3, 5}, Shape{1, 1, 1},
                                     Shape{65, 16, 67}, Shape{300, 5, 64},
                                     Shape{6, 513, 130}, Shape{5, 0, 70}),
                     testing::Bool()));

}  // namespace
}  // namespace tensorbow
