// Adam with a gradient of some rows: every element moves once, in whatever parts.
#include "cc/arithmetic/sparse_adam.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace tensorbow {
namespace {

constexpr int64_t kRows = 7, kRowSize = 5, kSize = kRows * kRowSize;
constexpr float kRate = 0.25f, kBeta1 = 0.5f, kBeta2 = 0.75f, kEpsilon = 0.125f;

struct State {
  std::vector<float> w, m, v;
};

State Start() {
  State state;
  for (int64_t i = 0; i < kSize; ++i) {
    state.w.push_back(static_cast<float>(i));
    state.m.push_back(static_cast<float>(i % 4) - 2);
    state.v.push_back(static_cast<float>(i % 3));
  }
  return state;
}

std::vector<float> Moments(size_t num_rows, float first) {
  std::vector<float> moments(num_rows * kRowSize);
  for (size_t i = 0; i < moments.size(); ++i) {
    moments[i] = first + 0.5f * static_cast<float>(i);
  }
  return moments;
}

State Updated(const std::vector<int64_t>& rows, int64_t part, Pull<float> pull) {
  State state = Start();
  const std::vector<float> m = Moments(rows.size(), 1), v = Moments(rows.size(), 2);
  const SparseAdam<float> adam({kRate, kBeta1, kBeta2, kEpsilon}, rows, kRowSize,
                               {m.data(), v.data()});
  for (int64_t begin = 0; begin < kSize; begin += part) {
    adam.Update(begin, std::min(kSize, begin + part), pull, state.w.data(),
                state.m.data(), state.v.data());
  }
  return state;
}

// Computes the formula, element by element.
State Expected(const std::vector<int64_t>& rows, Pull<float> pull) {
  State state = Start();
  const std::vector<float> m = Moments(rows.size(), 1), v = Moments(rows.size(), 2);
  for (int64_t i = 0; i < kSize; ++i) {
    state.m[i] *= kBeta1;
    state.v[i] *= kBeta2;
    for (size_t place = 0; place < rows.size(); ++place) {
      if (rows[place] != i / kRowSize) continue;
      state.m[i] += m[place * kRowSize + i % kRowSize];
      state.v[i] += v[place * kRowSize + i % kRowSize];
    }
    const float before = state.w[i];
    state.w[i] = before - state.m[i] * kRate / (std::sqrt(state.v[i]) + kEpsilon);
    if (pull.z != nullptr) state.w[i] -= pull.alpha * (before - pull.z[i]);
  }
  return state;
}

TEST(SparseAdamTest, MovesEveryElementOnceHoweverPartsAndRowsMeet) {
  const std::vector<float> z(kSize, 8);
  const std::vector<std::vector<int64_t>> choices = {
      {}, {0}, {6}, {3, 2}, {0, 6}, {5, 0, 5, 5}, {6, 5, 4, 3, 2, 1, 0}};
  for (const std::vector<int64_t>& rows : choices) {
    for (const Pull<float> pull : {Pull<float>(), Pull<float>{z.data(), 0.5f}}) {
      const State expected = Expected(rows, pull);
      for (int64_t part = 1; part <= kSize; ++part) {
        const State updated = Updated(rows, part, pull);
        EXPECT_EQ(updated.m, expected.m) << "parts of " << part;
        EXPECT_EQ(updated.v, expected.v) << "parts of " << part;
        EXPECT_EQ(updated.w, expected.w) << "parts of " << part;
      }
    }
  }
}

TEST(SparseAdamTest, HasNothingToDoForAnEmptyVariable) {
  const SparseAdam<double> adam({1, 1, 1, 1}, {}, 1, {nullptr, nullptr});
  adam.Update(0, 0, Pull<double>(), nullptr, nullptr, nullptr);
}

}  // namespace
}  // namespace tensorbow
