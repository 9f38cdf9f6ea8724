#include "cc/arithmetic/mean_of_rows.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tensorbow {
namespace {

using Rows = std::vector<int64_t>;

struct Learner {
  Rows rows;
  std::vector<float> values;
  double share = 1;
};

std::vector<LearnerRows<float>> ViewOf(const std::vector<Learner>& learners) {
  std::vector<LearnerRows<float>> view;
  for (const Learner& own : learners) {
    view.push_back({&own.rows, own.values.data(), own.share});
  }
  return view;
}

std::vector<float> MeanOf(const std::vector<Learner>& learners, int64_t row_size) {
  const auto view = ViewOf(learners);
  const Rows rows = UnionOfRows(view);
  std::vector<float> mean(rows.size() * row_size);
  MeanOfRows(view, rows, row_size, mean.data());
  return mean;
}

TEST(MeanOfRowsTest, TakesEveryRowThatAnybodyHas) {
  const std::vector<Learner> learners = {{{7, 2}, {1, 2, 3, 4}},
                                         {{2, 9}, {10, 20, 30, 40}}};
  EXPECT_EQ(UnionOfRows(ViewOf(learners)), (Rows{2, 7, 9}));
  EXPECT_EQ(MeanOf(learners, 2), (std::vector<float>{6.5, 12, 0.5, 1, 15, 20}));
}

TEST(MeanOfRowsTest, AddsUpARowThatComesTwice) {
  const std::vector<Learner> learners = {{{4, 4, 4}, {1, 2, 5}}, {{4}, {8}}};
  EXPECT_EQ(UnionOfRows(ViewOf(learners)), (Rows{4}));
  EXPECT_EQ(MeanOf(learners, 1), (std::vector<float>{8}));
}

TEST(MeanOfRowsTest, WeighsByShares) {
  const std::vector<Learner> learners = {{{0, 1}, {4, 8}, 1.5}, {{1}, {16}, 0.5}};
  EXPECT_EQ(MeanOf(learners, 1), (std::vector<float>{3, 10}));
}

TEST(MeanOfRowsTest, MayBeOfNoRows) {
  const std::vector<Learner> learners = {{{}, {}}, {{}, {}}};
  EXPECT_TRUE(UnionOfRows(ViewOf(learners)).empty());
  EXPECT_TRUE(MeanOf(learners, 3).empty());
}

TEST(MeanOfRowsTest, SumsInTheAccumulationType) {
  const Rows rows = {3};
  const Half first(2048), small(1), last(2050);  // 2049 is not representable
  const std::vector<LearnerRows<Half>> all = {
      {&rows, &first, 1}, {&rows, &small, 1}, {&rows, &small, 1}, {&rows, &last, 1}};
  Half mean;
  MeanOfRows(all, rows, 1, &mean);
  EXPECT_EQ(static_cast<float>(mean), 1025.0f);
}

}  // namespace
}  // namespace tensorbow
