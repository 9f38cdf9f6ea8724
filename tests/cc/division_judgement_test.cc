// What gradients by hand tell about dividing rows.
#include "cc/training/division_judgement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace tensorbow {
namespace {

using Kind = Judgement::Kind;
using Vector = std::vector<double>;

// Values by all rows, by each shard, and perhaps by the first one's rows given twice.
GradientProducts Gradient(const std::string& variable,
                          const std::vector<Vector>& values) {
  GradientProducts gradient;
  gradient.variable = variable;
  for (const Vector& a : values) {
    gradient.products.emplace_back();
    for (const Vector& b : values) {
      double product = 0;
      for (size_t i = 0; i < a.size(); ++i) product += a[i] * b[i];
      gradient.products.back().push_back(product);
    }
  }
  return gradient;
}

const std::vector<int64_t> kRows = {1, 3};
const Vector kFirst = {1, 2, 0, -1}, kSecond = {5, -2, 4, 3};

Vector Combined(double first, double second) {
  Vector sum;
  for (size_t i = 0; i < kFirst.size(); ++i) {
    sum.push_back(first * kFirst[i] + second * kSecond[i]);
  }
  return sum;
}

TEST(JudgeDivision, MeanWeightedByRowsIsSound) {
  const Judgement judgement = JudgeDivision(
      {Gradient("w", {Combined(0.25, 0.75), kFirst, kSecond})}, kRows, false);
  EXPECT_EQ(judgement.kind, Kind::kSound);
  EXPECT_FALSE(judgement.needs_twice);
  EXPECT_TRUE(judgement.sums.empty());
  EXPECT_TRUE(judgement.determined);
}

// Shards whose gradients cancel but for 1e-4 of them: `error` is relative to them.
Judgement JudgeConverged(double error) {
  const Vector first = {1, 2, 0, -1},
               second = {-1.0001 / 3, -2.0002 / 3, 0, 1.0001 / 3};
  const double size = std::sqrt(6.0);
  const Vector whole = {-0.25e-4, -0.5e-4, error * size, 0.25e-4};
  return JudgeDivision({Gradient("w", {whole, first, second, first})}, kRows, false);
}

TEST(JudgeDivision, WhatIsLeftWhereShardsCancelIsAsRoundedAsTheyAre) {
  EXPECT_EQ(JudgeConverged(0).kind, Kind::kSound);
  EXPECT_EQ(JudgeConverged(1e-6).kind, Kind::kSound);
  EXPECT_NE(JudgeConverged(1e-4).kind, Kind::kSound);
}

TEST(JudgeDivision, SumIsSoundIfRowsGivenTwiceCountTwice) {
  const Vector whole = Combined(1, 1);
  Judgement judgement =
      JudgeDivision({Gradient("w", {whole, kFirst, kSecond})}, kRows, false);
  EXPECT_TRUE(judgement.needs_twice);
  judgement = JudgeDivision({Gradient("w", {whole, kFirst, kSecond, Combined(2, 0)})},
                            kRows, false);
  EXPECT_EQ(judgement.kind, Kind::kSound);
  EXPECT_EQ(judgement.sums, std::vector<int>{0});
  // The entries of a matrix add up, too, but to another matrix.
  judgement = JudgeDivision({Gradient("w", {whole, kFirst, kSecond, Combined(3, 0)})},
                            kRows, false);
  EXPECT_EQ(judgement.kind, Kind::kNotSound);
}

TEST(JudgeDivision, OneSetOfWeightsForAllGradientsIsNearlySound) {
  const Vector u = {1, 0, 2}, v = {0, 3, 1};
  const auto mixed = [&](double a, double b) {
    return Vector{a * u[0] + b * v[0], a * u[1] + b * v[1], a * u[2] + b * v[2]};
  };
  const auto judge = [&](Vector of_w, Vector of_b) {
    return JudgeDivision({Gradient("w", {of_w, kFirst, kSecond, kFirst}),
                          Gradient("b", {of_b, u, v, u})},
                         kRows, false);
  };
  EXPECT_EQ(judge(Combined(0.35, 0.65), mixed(0.35, 0.65)).kind, Kind::kNearlySound);
  // Other weights for another variable, or not a mean.
  EXPECT_EQ(judge(Combined(0.35, 0.65), mixed(0.15, 0.85)).kind, Kind::kNotSound);
  EXPECT_EQ(judge(Combined(0.5, 0.75), mixed(0.5, 0.75)).kind, Kind::kNotSound);
  // So far from the rows' weights that the mean has another direction.
  EXPECT_EQ(judge(Combined(0.95, 0.05), mixed(0.95, 0.05)).kind, Kind::kNotSound);
}

TEST(JudgeDivision, BatchMomentsExcuseWhatSeesTheBatchAsASet) {
  const Vector whole = {9, 1, -4, 2};
  EXPECT_EQ(
      JudgeDivision({Gradient("w", {whole, kFirst, kSecond, kFirst})}, kRows, true)
          .kind,
      Kind::kBatchMoments);
  EXPECT_EQ(
      JudgeDivision({Gradient("w", {whole, kFirst, kSecond, kFirst})}, kRows, false)
          .kind,
      Kind::kNotSound);
  // Time in front is no set, batch normalisation or not.
  EXPECT_EQ(
      JudgeDivision({Gradient("w", {whole, kFirst, kSecond, kSecond})}, kRows, true)
          .kind,
      Kind::kNotSound);
}

TEST(JudgeDivision, WhatRoundingLeavesOfZeroDoesNotCount) {
  const Vector noise = {1e-7, 0, 0, 0}, other = {0, -1e-7, 0, 0};
  const Judgement judgement =
      JudgeDivision({Gradient("w", {Combined(0.25, 0.75), kFirst, kSecond}),
                     Gradient("bias", {noise, other, noise})},
                    kRows, false);
  EXPECT_EQ(judgement.kind, Kind::kSound);
  EXPECT_FALSE(judgement.determined);
}

TEST(JudgeDivision, TooSmallToTellGoesWithSumsWhereAllAreSums) {
  const Vector zero(4, 0.0);
  const Judgement judgement =
      JudgeDivision({Gradient("w", {Combined(1, 1), kFirst, kSecond, Combined(2, 0)}),
                     Gradient("dead", {zero, zero, zero, zero})},
                    kRows, false);
  EXPECT_EQ(judgement.sums, (std::vector<int>{0, 1}));
}

TEST(JudgeDivision, TheBestGradientOfAVariableCounts) {
  const Judgement judgement =
      JudgeDivision({Gradient("w", {{9, 9, 9, 9}, kFirst, kSecond, kFirst}),
                     Gradient("w", {Combined(0.25, 0.75), kFirst, kSecond, kFirst})},
                    kRows, false);
  EXPECT_EQ(judgement.kind, Kind::kSound);
}

TEST(JudgeDivision, NothingIsShownByZerosAndByWhatIsNotFinite) {
  const Vector zero(4, 0.0);
  Judgement judgement =
      JudgeDivision({Gradient("w", {zero, zero, zero})}, kRows, false);
  EXPECT_EQ(judgement.kind, Kind::kUnproven);
  EXPECT_FALSE(judgement.determined);
  judgement =
      JudgeDivision({Gradient("w", {{NAN, 0, 0, 0}, kFirst, kSecond})}, kRows, false);
  EXPECT_EQ(judgement.kind, Kind::kUnproven);
  EXPECT_NE(judgement.why.find("'w' is not finite"), std::string::npos);
}

}  // namespace
}  // namespace tensorbow
