#include "cc/support/flush_denormals.h"

#include <gtest/gtest.h>

#include <limits>

namespace tensorbow {
namespace {

// Returns whether results are flushed. Volatile: computed at run time, in the present
// mode.
template <typename T>
bool ResultsAreFlushed() {
  const volatile T smallest = std::numeric_limits<T>::min();
  const volatile T denormal = smallest / 4;
  return denormal == 0;
}

template <typename T>
bool OperandsAreFlushed() {
  const volatile T denormal = std::numeric_limits<T>::denorm_min();
  const volatile T large = std::numeric_limits<T>::max();
  const volatile T product = denormal * large;  // normal, if the operand is not zero
  return product == 0;
}

bool Flushes() {
  const bool flushes = ResultsAreFlushed<float>();
  EXPECT_EQ(ResultsAreFlushed<double>(), flushes);
  EXPECT_EQ(OperandsAreFlushed<float>(), flushes);
  EXPECT_EQ(OperandsAreFlushed<double>(), flushes);
  return flushes;
}

class FlushDenormalsTest : public testing::Test {
 protected:
  void SetUp() override {
#if !defined(__x86_64__) && !defined(__aarch64__)
    GTEST_SKIP() << "denormals are flushed on x86-64 and AArch64 only";
#endif
  }
};

TEST_F(FlushDenormalsTest, DenormalsAreZeroWithinTheScopeOnly) {
  EXPECT_FALSE(Flushes());
  {
    const ScopedFlushDenormals flush;
    EXPECT_TRUE(Flushes());
  }
  EXPECT_FALSE(Flushes());
}

TEST_F(FlushDenormalsTest, InnerScopeRestoresTheOuterOnesMode) {
  const ScopedFlushDenormals outer;
  {
    const ScopedFlushDenormals inner;
    EXPECT_TRUE(Flushes());
  }
  EXPECT_TRUE(Flushes());
}

TEST_F(FlushDenormalsTest, NormalNumbersAreAsEver) {
  const volatile float third = 1.0f / 3;
  const ScopedFlushDenormals flush;
  const volatile float one = 1, three = 3;
  EXPECT_EQ(one / three, third);
  const volatile float smallest = std::numeric_limits<float>::min();
  EXPECT_EQ(smallest / one, std::numeric_limits<float>::min());
}

}  // namespace
}  // namespace tensorbow
