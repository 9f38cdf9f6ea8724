#include "cc/arithmetic/element_program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace tensorbow {
namespace {

using Op = ElementOp;

std::vector<float> Values(int64_t n, float first) {
  std::vector<float> values(n);
  for (int64_t i = 0; i < n; ++i)
    values[i] = first + 0.01f * static_cast<float>(i % 97);
  return values;
}

// Two arrays (0, 1), the operand (2) and one scalar (3); instructions from 4 on.
ElementProgram Momentum() {
  return ElementProgram(2, 1,
                        {{Op::kMul, 1, 3},   // 4: slot · scalar
                         {Op::kAdd, 4, 2},   // 5: + gradient
                         {Op::kSub, 0, 5}},  // 6: w − value 5
                        {6, 5});
}

TEST(ElementProgramTest, UpdatesAVariableAndItsSlot) {
  for (const int64_t n : {1, 7, 512, 513, 5000}) {
    std::vector<float> w = Values(n, 1), slot = Values(n, 2);
    const std::vector<float> w0 = w, slot0 = slot, g = Values(n, 3);
    const float scalar = 0.9f;
    float* arrays[] = {w.data(), slot.data()};
    Momentum().Run(n, arrays, g.data(), &scalar, Pull<float>());
    for (int64_t i = 0; i < n; ++i) {
      const float expected = slot0[i] * scalar + g[i];
      ASSERT_EQ(slot[i], expected) << i << " of " << n;
      ASSERT_EQ(w[i], w0[i] - expected) << i << " of " << n;
    }
  }
}

TEST(ElementProgramTest, CorrectsTowardsTheCentralModel) {
  const int64_t n = 1000;
  std::vector<float> w = Values(n, 1), slot = Values(n, 2);
  const std::vector<float> w0 = w, slot0 = slot, g = Values(n, 3), z = Values(n, 4);
  const float scalar = 0.5f;
  float* arrays[] = {w.data(), slot.data()};
  Momentum().Run(n, arrays, g.data(), &scalar, Pull<float>{z.data(), 0.25f});
  for (int64_t i = 0; i < n; ++i) {
    const float updated = w0[i] - (slot0[i] * scalar + g[i]);
    ASSERT_FLOAT_EQ(w[i], updated - 0.25f * (w0[i] - z[i])) << i;
  }
}

// Each array becomes the other's old value.
TEST(ElementProgramTest, ExchangesTwoArrays) {
  const ElementProgram swap(2, 0, {{Op::kIdentity, 1, 1}, {Op::kIdentity, 0, 0}},
                            {3, 4});
  std::vector<float> a = Values(2000, 1), b = Values(2000, 2);
  const std::vector<float> a0 = a, b0 = b;
  float* arrays[] = {a.data(), b.data()};
  swap.Run<float>(2000, arrays, a0.data(), nullptr, {});
  EXPECT_EQ(a, b0);
  EXPECT_EQ(b, a0);
}

// Old values are read after the new ones have been computed.
TEST(ElementProgramTest, KeepsOldValuesAsLongAsTheyAreNeeded) {
  const ElementProgram program(2, 0,
                               {{Op::kAdd, 0, 2},       // 3: the new array 0
                                {Op::kMul, 0, 1},       // 4: from the old arrays
                                {Op::kSub, 4, 3},       // 5
                                {Op::kMaximum, 5, 1}},  // 6: the new array 1
                               {3, 6});
  std::vector<float> a = Values(700, -1), b = Values(700, -0.5f);
  const std::vector<float> a0 = a, b0 = b, g = Values(700, 0.25f);
  float* arrays[] = {a.data(), b.data()};
  program.Run<float>(700, arrays, g.data(), nullptr, {});
  for (int i = 0; i < 700; ++i) {
    ASSERT_EQ(a[i], a0[i] + g[i]);
    ASSERT_EQ(b[i], std::max(a0[i] * b0[i] - (a0[i] + g[i]), b0[i]));
  }
}

TEST(ElementProgramTest, EachOperationIsTensorFlowsOfThatName) {
  struct Case {
    const char* op;
    double expected;  // of 3 and −2, or of 3
  };
  const Case cases[] = {{"Identity", 3},
                        {"Neg", -3},
                        {"Abs", 3},
                        {"Sign", 1},
                        {"Square", 9},
                        {"Sqrt", 1.7320508},
                        {"Rsqrt", 0.57735027},
                        {"Reciprocal", 1.0 / 3},
                        {"Inv", 1.0 / 3},
                        {"Exp", 20.085537},
                        {"Log", 1.0986123},
                        {"AddV2", 1},
                        {"Add", 1},
                        {"Sub", 5},
                        {"Mul", -6},
                        {"RealDiv", -1.5},
                        {"Div", -1.5},
                        {"DivNoNan", -1.5},
                        {"Maximum", 3},
                        {"Minimum", -2},
                        {"Pow", 1.0 / 9},
                        {"SquaredDifference", 25}};
  for (const auto& [name, expected] : cases) {
    const auto op = ElementOpOf(name);
    ASSERT_TRUE(op.has_value()) << name;
    EXPECT_EQ(*ElementOpOf(NameOf(*op)), *op);
    // Both arguments are arrays, or one is a scalar.
    for (const auto& [a, b] :
         std::vector<std::pair<int, int>>{{0, 1}, {0, 2}, {2, 1}}) {
      if (NumArguments(*op) == 1 && a == 2) continue;
      double array = 3, operand = -2, scalar = a == 2 ? 3 : -2;
      double* arrays[] = {&array};
      ElementProgram(1, 1, {{*op, a, NumArguments(*op) == 1 ? a : b}}, {3})
          .Run<double>(1, arrays, &operand, &scalar, {});
      EXPECT_NEAR(array, expected, 1e-6) << name;
    }
  }
  EXPECT_FALSE(ElementOpOf("MatMul").has_value());
}

TEST(ElementProgramTest, RoundsHalfPrecisionAfterEachOperation) {
  std::vector<Half> w{Half(1.0f)};
  const Half g(0.0004f);  // less than half of the distance to the next number
  Half* arrays[] = {w.data()};
  ElementProgram(1, 0, {{Op::kAdd, 0, 1}, {Op::kAdd, 2, 1}}, {3})
      .Run<Half>(1, arrays, &g, nullptr, {});
  EXPECT_EQ(static_cast<float>(w[0]), 1.0f);
}

TEST(ElementProgramTest, DivisionByZeroIsZeroWhereTheOpSaysSo) {
  float w = 3;
  const float g = 0;
  float* arrays[] = {&w};
  ElementProgram(1, 0, {{Op::kDivNoNan, 0, 1}}, {2})
      .Run<float>(1, arrays, &g, nullptr, {});
  EXPECT_EQ(w, 0);
}

TEST(ElementProgramTest, SaysWhatIsWrongWithAProgram) {
  const std::vector<ElementInstruction> add{{Op::kAdd, 0, 1}};
  EXPECT_EQ(ElementProgram::Check(1, 0, add, {2}), "");
  EXPECT_NE(ElementProgram::Check(0, 0, add, {}), "");                  // no array
  EXPECT_NE(ElementProgram::Check(6, 0, add, {}), "");                  // too many
  EXPECT_NE(ElementProgram::Check(1, 0, {{Op::kAdd, 0, 2}}, {2}), "");  // its own value
  EXPECT_NE(ElementProgram::Check(1, 0, {{Op::kAdd, -1, 0}}, {2}), "");
  EXPECT_NE(ElementProgram::Check(1, 1, {{Op::kAdd, 2, 2}}, {3}), "");  // scalars only
  EXPECT_NE(ElementProgram::Check(1, 0, add, {0}), "");  // no instruction's
  EXPECT_NE(ElementProgram::Check(1, 0, add, {3}), "");  // none there
  EXPECT_NE(ElementProgram::Check(2, 0, {{Op::kAdd, 0, 1}}, {3, 3}), "");  // twice
}

}  // namespace
}  // namespace tensorbow
