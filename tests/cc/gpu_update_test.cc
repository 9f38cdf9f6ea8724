// The GPU's update rules, element by element, against the CPU's loops, bit for bit.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "cc/arithmetic/correction.h"
#include "cc/arithmetic/gpu/update_rules.h"
#include "cc/arithmetic/update_rules.h"

namespace tensorbow {
namespace {

template <typename T>
class GpuUpdateTest : public testing::Test {
 protected:
  static constexpr int kSize = 1003;

  std::vector<T> Random(T least, T greatest) {
    std::uniform_real_distribution<T> distribution(least, greatest);
    std::vector<T> values(kSize);
    for (T& value : values) value = distribution(random_);
    return values;
  }

  // Applies both rules to the same data, with and without a pull, one update after
  // another.
  template <typename CpuRule, typename GpuRule, typename... Slots>
  void ExpectSame(const CpuRule& cpu, const GpuRule& gpu, Slots... slots) {
    const std::vector<T> g = Random(-1, 1), z = Random(-1, 1);
    std::vector<T> w = Random(-1, 1), w_gpu = w;
    std::tuple<Slots...> cpu_slots(slots...), gpu_slots(slots...);
    const auto step = gpu.Load();
    for (const bool pulls : {false, true, true}) {
      const Pull<T> pull = {pulls ? z.data() : nullptr, T(0.3)};
      std::apply([&](auto&... s) { cpu(kSize, g.data(), pull, w.data(), s.data()...); },
                 cpu_slots);
      for (int i = 0; i < kSize; ++i) {
        const T before = w_gpu[i];
        const T after = std::apply(
            [&](auto&... s) { return step(before, g[i], s[i]...); }, gpu_slots);
        w_gpu[i] = pulls ? Corrected(after, before, z[i], pull.alpha) : after;
      }
    }
    EXPECT_EQ(std::memcmp(w.data(), w_gpu.data(), kSize * sizeof(T)), 0);
    EXPECT_TRUE(cpu_slots == gpu_slots);
  }

 private:
  std::mt19937 random_{1};
};

using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(GpuUpdateTest, Types);

TYPED_TEST(GpuUpdateTest, Assignments) {
  using T = TypeParam;
  this->ExpectSame(Assign<T>{Assignment::kReplace},
                   gpu::Assign<T, Assignment::kReplace>());
  this->ExpectSame(Assign<T>{Assignment::kAdd}, gpu::Assign<T, Assignment::kAdd>());
  this->ExpectSame(Assign<T>{Assignment::kSubtract},
                   gpu::Assign<T, Assignment::kSubtract>());
}

TYPED_TEST(GpuUpdateTest, GradientDescent) {
  using T = TypeParam;
  const T lr = T(0.07);
  this->ExpectSame(GradientDescent<T>{lr}, gpu::GradientDescent<T>{&lr});
}

TYPED_TEST(GpuUpdateTest, Momentum) {
  using T = TypeParam;
  const T lr = T(0.07), momentum = T(0.9);
  for (const bool nesterov : {false, true}) {
    this->ExpectSame(Momentum<T>{lr, momentum, nesterov},
                     gpu::Momentum<T>{&lr, &momentum, nesterov}, this->Random(-1, 1));
  }
}

TYPED_TEST(GpuUpdateTest, KerasMomentum) {
  using T = TypeParam;
  const T lr = T(0.07), momentum = T(0.9);
  for (const bool nesterov : {false, true}) {
    this->ExpectSame(KerasMomentum<T>{lr, momentum, nesterov},
                     gpu::KerasMomentum<T>{&lr, &momentum, nesterov},
                     this->Random(-1, 1));
  }
}

TYPED_TEST(GpuUpdateTest, Adam) {
  using T = TypeParam;
  const T beta1_power = T(0.81), beta2_power = T(0.998), lr = T(0.01), beta1 = T(0.9),
          beta2 = T(0.999), epsilon = T(1e-8);
  const T rate = lr * std::sqrt(T(1) - beta2_power) / (T(1) - beta1_power);
  for (const bool nesterov : {false, true}) {
    this->ExpectSame(Adam<T>{rate, beta1, beta2, epsilon, nesterov},
                     gpu::Adam<T>{&beta1_power, &beta2_power, &lr, &beta1, &beta2,
                                  &epsilon, nesterov},
                     this->Random(-1, 1), this->Random(0, 1));
  }
}

TYPED_TEST(GpuUpdateTest, RmsProp) {
  using T = TypeParam;
  const T lr = T(0.01), rho = T(0.9), momentum = T(0.5), epsilon = T(1e-7);
  this->ExpectSame(RmsProp<T>{lr, rho, momentum, epsilon},
                   gpu::RmsProp<T>{&lr, &rho, &momentum, &epsilon}, this->Random(0, 1),
                   this->Random(-1, 1));
}

TYPED_TEST(GpuUpdateTest, Adagrad) {
  using T = TypeParam;
  const T lr = T(0.01), epsilon = T(1e-7);
  for (const bool updates : {false, true}) {
    this->ExpectSame(Adagrad<T>{lr, 0, false, updates},
                     gpu::Adagrad<T>{&lr, nullptr, updates}, this->Random(0.1f, 1));
    this->ExpectSame(Adagrad<T>{lr, epsilon, true, updates},
                     gpu::Adagrad<T>{&lr, &epsilon, updates}, this->Random(0.1f, 1));
  }
}

}  // namespace
}  // namespace tensorbow
