#include "cc/arithmetic/batch_moments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace tensorbow {
namespace {

std::vector<float> Random(int64_t count, float centre, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(centre, 2);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Returns the moments by definition, in float64.
BatchMoments Defined(const std::vector<float>& x, int64_t rows, int64_t columns) {
  BatchMoments moments{rows, std::vector<double>(columns),
                       std::vector<double>(columns)};
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) moments.mean[c] += x[r * columns + c];
    moments.mean[c] /= static_cast<double>(rows);
    for (int64_t r = 0; r < rows; ++r) {
      const double distance = x[r * columns + c] - moments.mean[c];
      moments.squares[c] += distance * distance;
    }
  }
  return moments;
}

void ExpectNear(const BatchMoments& found, const BatchMoments& wanted, double centre) {
  ASSERT_EQ(found.rows, wanted.rows);
  for (size_t c = 0; c < wanted.mean.size(); ++c) {
    EXPECT_NEAR(found.mean[c], wanted.mean[c], 1e-6 * (1 + std::abs(centre)));
    EXPECT_NEAR(found.squares[c] / wanted.squares[c], 1, 1e-5);
  }
}

TEST(BatchMomentsTest, AreThoseOfTheDefinition) {
  for (const int64_t columns : {1, 3, 16, 17, 50}) {
    for (const int64_t rows : {2, 63, 64, 200}) {
      for (const float centre : {0.0F, 300.0F}) {
        const std::vector<float> x = Random(rows * columns, centre, 7);
        ExpectNear(MomentsOf(x.data(), rows, columns), Defined(x, rows, columns),
                   centre);
      }
    }
  }
}

TEST(BatchMomentsTest, OfPartsAreThoseOfTheWhole) {
  const int64_t columns = 5;
  const std::vector<float> x = Random(20 * columns, 40, 3);
  const std::vector<int64_t> ends = {0, 7, 8, 20};
  std::vector<BatchMoments> parts;
  for (size_t k = 0; k + 1 < ends.size(); ++k) {
    parts.push_back(
        MomentsOf(x.data() + ends[k] * columns, ends[k + 1] - ends[k], columns));
  }
  ExpectNear(MomentsTogether({&parts[0], &parts[1], &parts[2]}),
             Defined(x, 20, columns), 40);
}

TEST(BatchMomentsTest, EqualRowsHaveNoSquares) {
  const std::vector<float> x(40, 0.1F);
  const BatchMoments moments = MomentsOf(x.data(), 20, 2);
  EXPECT_NEAR(moments.mean[0], 0.1, 1e-7);
  EXPECT_NEAR(moments.squares[0], 0, 1e-12);
}

TEST(BatchMomentsTest, Normalises) {
  const std::vector<float> x = {1, 10, 3, 30}, mean = {2, 20}, factor = {2, 0.5},
                           offset = {1, 0};
  std::vector<float> y(4);
  Normalise(x.data(), 2, 2, mean.data(), factor.data(), offset.data(), false, y.data());
  EXPECT_EQ(y, (std::vector<float>{-1, -5, 3, 5}));
  Normalise(x.data(), 2, 2, mean.data(), factor.data(), offset.data(), true, y.data());
  EXPECT_EQ(y, (std::vector<float>{0, 0, 3, 5}));
}

TEST(BatchMomentsTest, WhatIsNotANumberStaysOne) {
  const std::vector<float> x = {NAN, 1}, zero = {0}, one = {1};
  std::vector<float> y(2);
  Normalise(x.data(), 2, 1, zero.data(), one.data(), zero.data(), true, y.data());
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_TRUE(std::isnan(MomentsOf(x.data(), 2, 1).squares[0]));
}

// Computes dx of Σ gradient·(x − mean)/σ by differences, for one column.
TEST(BatchMomentsTest, GradientIsThatOfTheNormalisation) {
  const int64_t rows = 9;
  const std::vector<float> x = Random(rows, 1, 1), dy = Random(rows, 0, 2);
  const auto loss = [&](const std::vector<double>& values) {
    double mean = 0, squares = 0, sum = 0;
    for (double v : values) mean += v / rows;
    for (double v : values) squares += (v - mean) * (v - mean) / rows;
    for (int64_t r = 0; r < rows; ++r) {
      sum += dy[r] * (values[r] - mean) / std::sqrt(squares);
    }
    return sum;
  };
  const BatchMoments moments = MomentsOf(x.data(), rows, 1);
  const auto mean = static_cast<float>(moments.mean[0]);
  const double variance = moments.squares[0] / rows;
  const GradientSums sums = GradientSumsOf(dy.data(), x.data(), rows, 1, &mean);
  const auto factor = static_cast<float>(1 / std::sqrt(variance));
  const auto by_value = static_cast<float>(sums.values[0] / rows);
  const auto by_distance = static_cast<float>(sums.products[0] / rows / variance);
  std::vector<float> dx(rows);
  NormaliseGradient(dy.data(), x.data(), rows, 1, &mean, &factor, &by_value,
                    &by_distance, dx.data());
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<double> up(x.begin(), x.end()), down(x.begin(), x.end());
    up[r] += 1e-5;
    down[r] -= 1e-5;
    EXPECT_NEAR(dx[r], (loss(up) - loss(down)) / 2e-5, 1e-4);
  }
}

}  // namespace
}  // namespace tensorbow
