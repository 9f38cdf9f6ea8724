// CGDP's search for the size of chunks, on artificial times.
#include "cc/synchroniser/hosts/chunk_search.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace tensorbow {
namespace {

// Returns the sizes that are tried if each takes `time`, and the size that is kept.
std::vector<int> Tried(ChunkSearch* search, const std::function<double(int)>& time) {
  std::vector<int> tried;
  while (!search->done() && tried.size() < 1000) {
    tried.push_back(search->chunk());
    search->Took(time(search->chunk()));
  }
  tried.push_back(search->chunk());
  return tried;
}

TEST(ChunkSearchTest, GoesOneByOneThenInStepsAndStopsInRangeOfTheBest) {
  ChunkSearch search({/*interval=*/10, /*step=*/4, /*range=*/3}, /*most=*/100);
  // 3 is the fastest; 3 + 4 · 3 = 15 is not tried.
  EXPECT_EQ(Tried(&search, [](int k) { return k == 3 ? 1.0 : 2.0; }),
            (std::vector<int>{1, 2, 3, 4, 8, 12, 3}));
}

TEST(ChunkSearchTest, GoesOnWithEveryNewBest) {
  ChunkSearch search({10, 10, 5}, 1000);
  // Larger is better up to 40, then worse: 40 + 50 is the bound.
  const auto time = [](int k) { return k <= 40 ? 100.0 - k : 60.0 + k; };
  EXPECT_EQ(Tried(&search, time), (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20,
                                                    30, 40, 50, 60, 70, 80, 40}));
}

TEST(ChunkSearchTest, TriesNoMoreThanAllGradients) {
  ChunkSearch search({10, 10, 5}, /*most=*/3);
  EXPECT_EQ(Tried(&search, [](int k) { return 1.0 / k; }),
            (std::vector<int>{1, 2, 3, 3}));
}

TEST(ChunkSearchTest, KeepsTheFirstOfEqualSizes) {
  ChunkSearch search({10, 2, 2}, 100);
  EXPECT_EQ(Tried(&search, [](int) { return 1.0; }), (std::vector<int>{1, 2, 4, 1}));
}

TEST(ChunkSearchTest, OneGradientNeedsNoSearchBeyondItself) {
  ChunkSearch search({10, 10, 5}, 1);
  EXPECT_EQ(Tried(&search, [](int) { return 1.0; }), (std::vector<int>{1, 1}));
}

}  // namespace
}  // namespace tensorbow
