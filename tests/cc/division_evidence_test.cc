// A sketch keeps what a proof compares of large gradients.
#include "cc/training/division_evidence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

constexpr int64_t kSize = 1'000'003;

tf::Tensor Filled(int64_t size, const std::function<float(int64_t)>& value) {
  tf::Tensor tensor(tf::DT_FLOAT, {size});
  for (int64_t i = 0; i < size; ++i) tensor.flat<float>()(i) = value(i);
  return tensor;
}

tf::Tensor Normal(int64_t size, int seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  return Filled(size, [&](int64_t) { return normal(engine); });
}

TEST(Sketched, SmallTensorsAndIntegersAreTheirOwn) {
  const tf::Tensor small = Normal(1000, 1);
  EXPECT_TRUE(Sketched(small).SharesBufferWith(small));
  const tf::Tensor integers(tf::DT_INT64, {kSize});
  EXPECT_TRUE(Sketched(integers).SharesBufferWith(integers));
}

TEST(Sketched, InnerProductsAreKept) {
  const tf::Tensor a = Normal(kSize, 1), b = Normal(kSize, 2);
  const tf::Tensor near = Filled(kSize, [&](int64_t i) {
    return 0.6f * a.flat<float>()(i) + 0.8f * b.flat<float>()(i);
  });
  // All that is large has the same place in its row, as in the gradient of one unit.
  const tf::Tensor column = Filled(
      kSize, [&](int64_t i) { return i % 4096 == 7 ? a.flat<float>()(i) : 0.0f; });
  const tf::Tensor once =
      Filled(kSize, [](int64_t i) { return i == 99 ? 5.0f : 0.0f; });
  const std::vector<tf::Tensor> values = {a, b, near, column, once};
  std::vector<tf::Tensor> sketches;
  for (const tf::Tensor& value : values) {
    sketches.push_back(Sketched(value));
    EXPECT_LT(sketches.back().NumElements(), kSize / 10);
  }
  const Products exact = InnerProducts(values), kept = InnerProducts(sketches);
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = 0; j < values.size(); ++j) {
      EXPECT_NEAR(kept[i][j], exact[i][j], 0.02 * std::sqrt(exact[i][i] * exact[j][j]))
          << i << ", " << j;
    }
  }
}

TEST(Sketched, SketchOfAMeanIsTheMeanOfSketches) {
  const tf::Tensor a = Normal(kSize, 3), b = Normal(kSize, 4);
  const tf::Tensor mean = Filled(kSize, [&](int64_t i) {
    return 0.25f * a.flat<float>()(i) + 0.75f * b.flat<float>()(i);
  });
  const auto x = Sketched(a).flat<double>(), y = Sketched(b).flat<double>();
  const auto z = Sketched(mean).flat<double>();
  for (int64_t i = 0; i < z.size(); ++i) {
    ASSERT_NEAR(z(i), 0.25 * x(i) + 0.75 * y(i), 1e-5);
  }
}

TEST(Sketched, DifferenceInOneElementOfAMillionIsSeen) {
  const tf::Tensor a = Normal(kSize, 5);
  const tf::Tensor b = Filled(kSize, [&](int64_t i) {
    return a.flat<float>()(i) + (i == 777'777 ? 2000.0f : 0.0f);
  });
  const Products kept = InnerProducts({Sketched(a), Sketched(b)});
  const double squared = kept[0][0] - 2 * kept[0][1] + kept[1][1];
  EXPECT_NEAR(std::sqrt(squared), 2000, 1e-3 * 2000);
}

}  // namespace
}  // namespace tensorbow
