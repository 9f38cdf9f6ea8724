// Sums over GPUs: the reduction on the host, and the division of variables into blocks
// in one buffer.
#include <gtest/gtest.h>

#include <optional>
#include <type_traits>
#include <vector>

#include "cc/reducer/host_reducer.h"
#include "cc/synchroniser/gpu/block_layout.h"
#include "tests/cc/fake_cuda.h"

namespace tensorbow {
namespace {

constexpr int kSeeds = 12;

TEST(HostReducerTest, SumsInTheOrderOfTheGpus) {
  // 2^24 + 1 − 2^24: 0 in this order, 1 in another.
  const float a = 16777216, b = 1, c = -16777216;
  const float* values[] = {&a, &b, &c};
  float sum = 0;
  SumInOrder(values, 3, 1, &sum);
  EXPECT_EQ(sum, 0);
}

// The values of three GPUs, which are added up repeatedly.
template <typename T>
class SumsOfThree {
 public:
  explicit SumsOfThree(int n) : n_(n), reducer_({0, 1, 2}), values_(3) {
    for (int g = 0; g < 3; ++g) {
      streams_.push_back(fake_cuda::NewStream(g));
      for (int i = 0; i < n; ++i) values_[g].push_back(static_cast<T>(i % 1000 + g));
      buffers_.push_back(values_[g].data());
    }
  }

  void* stream(int gpu) const { return streams_[gpu]; }
  void AddUp() {
    constexpr bool kIsFloat = std::is_same_v<T, float>;
    const ElementType type = kIsFloat ? ElementType::kFloat32 : ElementType::kFloat64;
    ASSERT_EQ(reducer_.Sum(type, n_, buffers_, streams_), "");
  }
  void ExpectSums(T factor) const {
    for (const std::vector<T>& values : values_) {
      for (int i = 0; i < n_; ++i) ASSERT_EQ(values[i], factor * (3 * (i % 1000) + 3));
    }
  }

 private:
  const int n_;
  HostReducer reducer_;
  std::vector<std::vector<T>> values_;
  std::vector<void*> buffers_, streams_;
};

TEST(HostReducerTest, GivesEveryGpuTheSumAgainAndAgain) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    fake_cuda::Seed(seed);
    SumsOfThree<float> sums(100);
    for (int round = 0; round < 4; ++round) sums.AddUp();
    fake_cuda::Drain();
    sums.ExpectSums(27);
  }
}

TEST(HostReducerTest, AddsUpInChunks) {
  constexpr int kElements = 2 * HostReducer::kChunkBytes / sizeof(double) + 10;
  for (int seed = 0; seed < 4; ++seed) {
    fake_cuda::Seed(seed);
    SumsOfThree<double> sums(kElements);
    for (int round = 0; round < 3; ++round) sums.AddUp();
    fake_cuda::Drain();
    sums.ExpectSums(9);
  }
}

TEST(HostReducerTest, DoesNotWaitForTheGpus) {
  bool returned_before = false;
  for (int seed = 0; seed < kSeeds; ++seed) {
    fake_cuda::Seed(seed);
    SumsOfThree<float> sums(100);
    sums.AddUp();  // allocates memory
    fake_cuda::Drain();
    bool executed = false;
    fake_cuda::Enqueue(sums.stream(2), [&executed] { executed = true; });
    sums.AddUp();
    returned_before |= !executed;
    fake_cuda::Drain();
    sums.ExpectSums(3);
  }
  EXPECT_TRUE(returned_before);
}

// ------------------------------------------------------------------- block layout

TEST(BlockLayoutTest, BlocksCoverEveryElementOnce) {
  const BlockLayout layout({{ElementType::kFloat32, 10000},
                            {ElementType::kFloat64, 4096},
                            {ElementType::kFloat32, 0},
                            {ElementType::kFloat32, 1}});
  std::vector<std::vector<int>> seen = {
      std::vector<int>(10000), std::vector<int>(4096), {}, {0}};
  for (const SmaBlock& block : layout.blocks()) {
    EXPECT_LE(block.size, SmaBlock::kElements);
    for (int i = 0; i < block.size; ++i) ++seen[block.member][block.begin + i];
  }
  for (const auto& member : seen) {
    for (int times : member) EXPECT_EQ(times, 1);
  }
}

TEST(BlockLayoutTest, OneLaunchForEachTypeAndValue) {
  const BlockLayout layout({{ElementType::kFloat32, 5000},
                            {ElementType::kFloat64, 10},
                            {ElementType::kFloat32, 10},
                            {ElementType::kFloat32, 20}});
  auto launches = layout.Launches([](int) { return 0; });
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].type, ElementType::kFloat32);
  EXPECT_EQ(launches[0].count, 4);  // 2 + 1 + 1 blocks
  EXPECT_EQ(launches[1].type, ElementType::kFloat64);
  EXPECT_EQ(launches[1].first, 4);
  launches = layout.Launches([](int member) { return member == 3 ? 0.5 : 0; });
  ASSERT_EQ(launches.size(), 3u);
  EXPECT_EQ(launches[0].count, 3);
  EXPECT_EQ(launches[1].value, 0.5);
}

TEST(BlockLayoutTest, MembersWithoutAValueAreLeftOut) {
  const BlockLayout layout({{ElementType::kFloat32, 5000},
                            {ElementType::kFloat32, 10},
                            {ElementType::kFloat32, 20}});
  const auto launches = layout.Launches(
      [](int member) { return member == 1 ? std::nullopt : std::optional(0.5); });
  ASSERT_EQ(launches.size(), 2u);  // no longer neighbours
  EXPECT_EQ(launches[0].count, 2);
  EXPECT_EQ(launches[1].first, 3);
  EXPECT_EQ(launches[1].count, 1);
}

TEST(BlockLayoutTest, FlatBufferHoldsFloatsThenDoubles) {
  const BlockLayout layout({{ElementType::kFloat16, 65},
                            {ElementType::kFloat64, 10},
                            {ElementType::kFloat32, 10}});
  EXPECT_EQ(layout.flat(0), 0);
  EXPECT_EQ(layout.flat(2), 128);  // after 65 elements, on a multiple of 64
  EXPECT_EQ(layout.flat(1), 0);
  ASSERT_EQ(layout.parts().size(), 2u);
  EXPECT_EQ(layout.parts()[0].size, 192);
  EXPECT_EQ(layout.part_begin_bytes(ElementType::kBfloat16), 0);
  EXPECT_EQ(layout.part_begin_bytes(ElementType::kFloat64), 192 * 4);
  EXPECT_EQ(layout.flat_bytes(), 192 * 4 + 64 * 8);
}

}  // namespace
}  // namespace tensorbow
