#include "cc/support/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tensorbow {
namespace {

TEST(HalfTest, KnownValues) {
  // IEEE 754-2008 binary16, computed by hand.
  EXPECT_EQ(Half(0.0f).bits, 0x0000);
  EXPECT_EQ(Half(-0.0f).bits, 0x8000);
  EXPECT_EQ(Half(1.0f).bits, 0x3c00);
  EXPECT_EQ(Half(-2.0f).bits, 0xc000);
  EXPECT_EQ(Half(65504.0f).bits, 0x7bff);               // largest
  EXPECT_EQ(Half(std::ldexp(1.0f, -14)).bits, 0x0400);  // smallest normal
  EXPECT_EQ(Half(std::ldexp(1.0f, -24)).bits, 0x0001);  // smallest subnormal
  EXPECT_EQ(Half(std::ldexp(1.0f, -26)).bits, 0x0000);  // underflow
  EXPECT_EQ(Half(65520.0f).bits, 0x7c00);               // rounds to infinity
  EXPECT_EQ(Half(65519.0f).bits, 0x7bff);               // does not
  EXPECT_EQ(Half(std::numeric_limits<float>::infinity()).bits, 0x7c00);
  EXPECT_TRUE(std::isnan(float(Half(std::nanf("")))));
}

TEST(HalfTest, TiesGoToEven) {
  EXPECT_EQ(Half(1.0f + std::ldexp(1.0f, -11)).bits, 0x3c00);  // 1 + half an ulp
  EXPECT_EQ(Half(1.0f + 3 * std::ldexp(1.0f, -11)).bits, 0x3c02);
}

TEST(HalfTest, EveryValueSurvivesTheWayToFloatAndBack) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    Half half;
    half.bits = static_cast<uint16_t>(bits);
    const float value = static_cast<float>(half);
    if (std::isnan(value)) continue;
    ASSERT_EQ(Half(value).bits, bits) << value;
  }
}

TEST(Bfloat16Test, EveryValueSurvivesTheWayToFloatAndBack) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    Bfloat16 bfloat;
    bfloat.bits = static_cast<uint16_t>(bits);
    const float value = static_cast<float>(bfloat);
    if (std::isnan(value)) continue;
    ASSERT_EQ(Bfloat16(value).bits, bits) << value;
  }
}

TEST(Bfloat16Test, RoundsToNearestEven) {
  EXPECT_EQ(Bfloat16(1.0f + std::ldexp(1.0f, -8)).bits, 0x3f80);      // tie to even
  EXPECT_EQ(Bfloat16(1.0f + 3 * std::ldexp(1.0f, -8)).bits, 0x3f82);  // tie to even
  EXPECT_EQ(Bfloat16(1.0f + 1.1f * std::ldexp(1.0f, -8)).bits, 0x3f81);
  EXPECT_TRUE(std::isnan(float(Bfloat16(std::nanf("")))));
}

TEST(HalfTest, EveryOperationRounds) {
  const Half one(1), tiny(std::ldexp(1.0f, -11));  // half an ulp of 1
  EXPECT_EQ((one + tiny + tiny).bits, one.bits);
  EXPECT_EQ((one + (tiny + tiny)).bits, 0x3c01);
  EXPECT_EQ((one / Half(3)).bits, 0x3555);
  EXPECT_EQ(sqrt(Half(2)).bits, 0x3da8);
  EXPECT_EQ((Half(256) * Half(256)).bits, 0x7c00);  // infinity
}

}  // namespace
}  // namespace tensorbow
