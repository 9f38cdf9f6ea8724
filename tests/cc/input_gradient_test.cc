#include "cc/arithmetic/input_gradient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/cc/products.h"

namespace tensorbow {
namespace {

class InputGradientTest : public testing::TestWithParam<InputGradient::Shape> {
 protected:
  InputGradientTest()
      : shape_(GetParam()),
        b_(Random(shape_.batch * shape_.columns)),
        w_(Random(shape_.rows * shape_.columns)),
        workspace_(InputGradient::WorkspaceSize(shape_), NAN),
        gradient_(shape_, b_.data(), workspace_.data()) {}

  int64_t size() const { return w_.size(); }

  void Add(int64_t begin, int64_t end, std::vector<float>& d) const {
    // Elements outside of the part must not be read.
    std::vector<float> part(w_.begin() + begin, w_.begin() + end);
    gradient_.Add(begin, end, part.data(), d.data());
  }

  const InputGradient::Shape shape_;
  const std::vector<float> b_, w_;
  std::vector<float> workspace_;
  const InputGradient gradient_;
};

TEST_P(InputGradientTest, AddsProductsWithTheTransposed) {
  // As a whole; in parts that end inside rows; in parts shorter than most rows.
  for (const int64_t step :
       {size(), size() / 3 + 1, std::max<int64_t>(1, size() / 70)}) {
    const int64_t results = shape_.batch * shape_.rows;
    std::vector<float> d(results + 1, 0.5f);
    for (int64_t begin = 0; begin < size(); begin += step) {
      Add(begin, std::min(size(), begin + step), d);
    }
    for (int64_t k = 0; k < shape_.batch; ++k) {
      for (int64_t i = 0; i < shape_.rows; ++i) {
        double sum = 0.5, magnitude = 0.5;
        for (int64_t j = 0; j < shape_.columns; ++j) {
          const double term =
              double{b_[k * shape_.columns + j]} * w_[i * shape_.columns + j];
          sum += term;
          magnitude += std::abs(term);
        }
        ASSERT_NEAR(d[k * shape_.rows + i], sum, magnitude * shape_.columns * 0x1p-23)
            << k << ", " << i << ", step " << step;
      }
    }
    EXPECT_EQ(d[results], 0.5f);
  }
}

TEST_P(InputGradientTest, SumsInOrderWithOneRoundingEach) {
  if (!HasMultiplyAdd()) GTEST_SKIP() << "this processor has no multiply-add";
  std::vector<float> d(shape_.batch * shape_.rows, 0.5f);
  Add(0, size(), d);
  for (int64_t k = 0; k < shape_.batch; ++k) {
    for (int64_t i = 0; i < shape_.rows; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < shape_.columns; ++j) {
        sum = std::fma(w_[i * shape_.columns + j], b_[k * shape_.columns + j], sum);
      }
      ASSERT_EQ(d[k * shape_.rows + i], 0.5f + sum) << k << ", " << i;
    }
  }
}

TEST_P(InputGradientTest, BitsDoNotDependOnTheOrderOfTheParts) {
  std::vector<float> forwards(shape_.batch * shape_.rows), backwards = forwards;
  const int64_t middle = size() / 2;
  Add(0, middle, forwards);
  Add(middle, size(), forwards);
  Add(middle, size(), backwards);
  Add(0, middle, backwards);
  EXPECT_EQ(forwards, backwards);
}

// Whole and partial blocks of rows and of the batch; an empty batch, an empty matrix.
INSTANTIATE_TEST_SUITE_P(
    Shapes, InputGradientTest,
    testing::Values(InputGradient::Shape{16, 64, 16}, InputGradient::Shape{7, 5, 3},
                    InputGradient::Shape{1, 1, 1}, InputGradient::Shape{65, 67, 4},
                    InputGradient::Shape{30, 128, 5}, InputGradient::Shape{33, 100, 29},
                    InputGradient::Shape{12, 130, 64}, InputGradient::Shape{5, 70, 0},
                    InputGradient::Shape{0, 70, 3}));

}  // namespace
}  // namespace tensorbow
