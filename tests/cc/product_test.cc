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

  // Computes all rows of the products' sum.
  void Rows(const std::vector<const Product*>& products, float* out, float scale = 1) {
    Product::RowsOfSum(products, 0, shape_.rows, scale, scratch_.data(), out);
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
  Rows({&product}, c.data());
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
  Rows({&product}, whole.data());
  const int64_t step = shape_.rows > 100 ? 37 : 3;
  for (int64_t row = 0; row < shape_.rows; row += step) {
    Product::RowsOfSum({&product}, row, std::min(shape_.rows, row + step), /*scale=*/1,
                       scratch_.data(), parts.data() + row * shape_.columns);
  }
  EXPECT_EQ(parts, whole);
}

TEST_P(ProductTest, WritesNothingBeyondItsRows) {
  const Product product(factors_, workspace_.data());
  std::vector<float> c((shape_.rows + 1) * shape_.columns, 7);
  Rows({&product}, c.data());
  for (int64_t j = 0; j < shape_.columns; ++j) {
    EXPECT_EQ(c[shape_.rows * shape_.columns + j], 7);
  }
}

// Rows of the batch lie in several places: the bits are those of one place.
TEST_P(ProductTest, SumsOfProductsGoOnFromOneToTheNext) {
  constexpr int kInner = 2;
  const std::vector<float> a = Random(kInner * shape_.rows);
  const std::vector<float> b = Random(kInner * shape_.columns);
  const Product::Factors more{a.data(),    transposed_, b.data(),
                              shape_.rows, kInner,      shape_.columns};
  std::vector<float> workspace(Product::WorkspaceSize(more));
  const Product first(factors_, workspace_.data()), second(more, workspace.data());
  const int64_t inner = shape_.inner + kInner;
  const auto whole_a = [&](int64_t i, int64_t k) {
    if (k < shape_.inner) return A(i, k);
    k -= shape_.inner;
    return transposed_ ? a[k * shape_.rows + i] : a[i * kInner + k];
  };
  std::vector<float> together_a, together_b(b_);
  for (int64_t n = 0; n < shape_.rows * inner; ++n) {
    together_a.push_back(transposed_ ? whole_a(n % shape_.rows, n / shape_.rows)
                                     : whole_a(n / inner, n % inner));
  }
  together_b.insert(together_b.end(), b.begin(), b.end());
  const Product::Factors all{together_a.data(), transposed_, together_b.data(),
                             shape_.rows,       inner,       shape_.columns};
  std::vector<float> workspace_of_all(Product::WorkspaceSize(all));
  const Product together(all, workspace_of_all.data());
  for (const float scale : {1.0f, 0.5f, 1.0f / 3}) {
    std::vector<float> sum(shape_.rows * shape_.columns, NAN), expected = sum;
    Rows({&first, &second}, sum.data(), scale);
    Rows({&together}, expected.data(), scale);
    ASSERT_EQ(sum, expected);
  }
}

TEST_P(ProductTest, SumsAreScaled) {
  const Product product(factors_, workspace_.data());
  std::vector<float> c(shape_.rows * shape_.columns, NAN), scaled = c;
  Rows({&product}, c.data());
  Rows({&product, &product}, scaled.data(), 0.25f);
  for (size_t i = 0; i < c.size(); ++i) {
    ASSERT_NEAR(scaled[i], 0.5f * c[i], (std::abs(c[i]) + shape_.inner) * 0x1p-20);
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
