// The rules of Adaptive SGD against numbers computed by hand from the paper's formulas,
// and the cutting of rows into batches.
#include "cc/synchroniser/algorithms/mega_batches.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "cc/scheduler/row_cutter.h"

namespace tensorbow {
namespace {

using Sizes = std::vector<int64_t>;

// Trains a mega-batch in which the learners make these numbers of updates.
std::vector<double> Train(MegaBatches* batches, const std::vector<int64_t>& updates,
                          bool small = false) {
  for (int i = 0; i < batches->num_learners(); ++i) {
    for (int64_t u = 0; u < updates[i]; ++u) {
      batches->RecordUpdate(i, batches->size(i));
    }
  }
  std::vector<double> weights = batches->Weights(small);
  batches->Next(weights);
  return weights;
}

Sizes SizesOf(const MegaBatches& batches) {
  Sizes sizes;
  for (int i = 0; i < batches.num_learners(); ++i) sizes.push_back(batches.size(i));
  return sizes;
}

TEST(MegaBatchesTest, OptionsLeftOpenFollowFromTheFirstRun) {
  MegaBatches batches(AdaptiveOptions(), 4);
  EXPECT_EQ(batches.rate(0), 1);
  batches.Begin(510);
  EXPECT_EQ(batches.options().b_max, 128) << "510 / 4, rounded up";
  EXPECT_EQ(batches.options().b_min, 16);
  EXPECT_EQ(batches.options().beta, 8);
  EXPECT_EQ(batches.options().mega_batch, 12800);
  EXPECT_EQ(SizesOf(batches), Sizes(4, 128));
  batches.Begin(8);
  EXPECT_EQ(batches.options().b_max, 128) << "the first run's";
}

TEST(MegaBatchesTest, SizesFollowTheUpdates) {
  AdaptiveOptions options;
  options.b_max = 128;  // hence b_min is 16, beta 8
  MegaBatches batches(options, 3);
  // ū = 9: 3 more than the mean would be 152, which is too many; 3 fewer are 24.
  Train(&batches, {12, 9, 6});
  EXPECT_EQ(SizesOf(batches), (Sizes{128, 128, 104}));
  EXPECT_EQ(batches.rate(2), 104. / 128);
  // ū = 10: 1 more than the mean.
  Train(&batches, {10, 9, 11});
  EXPECT_EQ(SizesOf(batches), (Sizes{128, 120, 112}));
  // ū = 31 / 3: 11 fewer would be 24 rows, 12 fewer would be less than b_min.
  Train(&batches, {22, 0, 9});
  EXPECT_EQ(SizesOf(batches), (Sizes{128, 37, 101}))
      << "120 - 8 * 31/3 = 37.33, 112 - 8 * 4/3 = 101.33";
  Train(&batches, {31, 0, 2});
  EXPECT_EQ(SizesOf(batches), (Sizes{128, 37, 29})) << "37 - 88 < 16 stays";
}

TEST(MegaBatchesTest, SizesStayWithoutScaling) {
  AdaptiveOptions options;
  options.b_max = 64;
  options.scales = false;
  MegaBatches batches(options, 2);
  Train(&batches, {9, 1});
  EXPECT_EQ(SizesOf(batches), (Sizes{64, 64}));
}

TEST(MegaBatchesTest, ReplicasWeighAsTheirUpdatesOrSizes) {
  AdaptiveOptions options;
  options.b_max = 128;
  MegaBatches batches(options, 2);
  EXPECT_EQ(Train(&batches, {3, 1}), (std::vector<double>{0.75, 0.25}));
  ASSERT_EQ(SizesOf(batches), (Sizes{128, 120}));
  EXPECT_EQ(Train(&batches, {5, 5}), (std::vector<double>{128. / 248, 120. / 248}));
}

TEST(MegaBatchesTest, TheFastestAndTheSlowestArePerturbed) {
  AdaptiveOptions options;
  options.b_max = 128;
  options.perturbation = 0.2;
  MegaBatches batches(options, 4);
  const std::vector<double> weights = Train(&batches, {2, 4, 3, 1}, /*small=*/true);
  EXPECT_DOUBLE_EQ(weights[0], 0.2);
  EXPECT_DOUBLE_EQ(weights[1], 0.4 * 1.2);
  EXPECT_DOUBLE_EQ(weights[2], 0.3);
  EXPECT_DOUBLE_EQ(weights[3], 0.1 * 0.8);
  MegaBatches equal(options, 2);
  EXPECT_EQ(Train(&equal, {5, 5}, /*small=*/true), (std::vector<double>{0.5, 0.5}))
      << "nobody is fast or slow";
  MegaBatches alone(options, 2);
  EXPECT_EQ(Train(&alone, {5, 0}, /*small=*/true), (std::vector<double>{1, 0}));
}

TEST(MegaBatchesTest, WeightsAreEqualWithoutNormalisation) {
  AdaptiveOptions options;
  options.b_max = 128;
  options.normalises = false;
  MegaBatches batches(options, 2);
  EXPECT_EQ(Train(&batches, {3, 1}, /*small=*/true), (std::vector<double>{0.5, 0.5}));
}

TEST(MegaBatchesTest, RowsAreCountedUntilTheNextOne) {
  AdaptiveOptions options;
  options.b_max = 8;
  options.mega_batch = 20;
  MegaBatches batches(options, 2);
  batches.RecordUpdate(0, 8);
  batches.RecordUpdate(1, 8);
  EXPECT_EQ(batches.rows_left(), 4);
  EXPECT_FALSE(batches.complete());
  batches.RecordUpdate(1, 4);
  EXPECT_TRUE(batches.complete());
  batches.Next(batches.Weights(false));
  EXPECT_EQ(batches.rows_left(), 20);
  const MegaBatches::Record& record = batches.records().back();
  EXPECT_EQ(record.sizes, (Sizes{8, 8}));
  EXPECT_EQ(record.updates, (Sizes{1, 2}));
  EXPECT_EQ(record.rows, (Sizes{8, 12}));
  batches.RecordUpdate(0, 8);
  batches.Abandon();
  EXPECT_EQ(batches.rows_left(), 20);
  EXPECT_EQ(batches.num_updates(), 0);
  EXPECT_EQ(batches.records().size(), 1u);
}

TEST(MegaBatchesTest, GoesOnFromWhatWasSaved) {
  AdaptiveOptions options;
  options.b_max = 64;
  MegaBatches batches(options, 2);
  Train(&batches, {5, 1});
  batches.RecordUpdate(1, 7);
  MegaBatches other(options, 2);
  ASSERT_TRUE(other.Set(batches.Get()));
  EXPECT_EQ(SizesOf(other), SizesOf(batches));
  EXPECT_EQ(other.rows_left(), batches.rows_left());
  MegaBatches open(AdaptiveOptions(), 2);
  ASSERT_TRUE(open.Set(batches.Get()));
  EXPECT_EQ(open.options().b_max, 64);
  EXPECT_EQ(open.size(1), batches.size(1));
  EXPECT_FALSE(other.Set({64, 1, 1, 65, 1, 1, 64})) << "more than b_max";
  EXPECT_FALSE(other.Set({64, 1, 1, 60, -1, 1, 64}));
  EXPECT_FALSE(other.Set({64, 1, 1, 64}));
  EXPECT_TRUE(other.Set({64, 1, 1, 60, 1, 1, 64})) << "before turns were saved";
  EXPECT_EQ(other.turn(), 0);
}

TEST(MegaBatchesTest, GoesOnFromWhatWasSavedOnAHost) {
  AdaptiveOptions options;
  options.b_max = 8;
  options.mega_batch = 60;
  MegaBatches batches(options, 1);
  batches.SetHosts({2, 1}, /*own=*/1, /*by_speed=*/true);
  batches.SetPart(0, {true, false, 10, {4, 1}, {30, 8}});
  batches.RecordUpdate(0, 8);
  batches.RecordTraining(20);
  batches.Next(batches.Weights(false));
  batches.RecordUpdate(0, 3);
  MegaBatches other(options, 1);
  EXPECT_FALSE(other.Set(batches.Get())) << "of another number of hosts";
  other.SetHosts({1, 2}, /*own=*/0, /*by_speed=*/true);
  EXPECT_FALSE(other.Set(batches.Get())) << "of hosts with other learners";
  other.SetHosts({2, 1}, /*own=*/1, /*by_speed=*/true);
  ASSERT_TRUE(other.Set(batches.Get()));
  EXPECT_EQ(other.Get(), batches.Get());
  EXPECT_EQ(other.rows_left(), batches.rows_left());
  EXPECT_EQ(batches.share_of(0) + batches.share_of(1), 60);
}

TEST(MegaBatchesTest, HostsWithoutUpdatesHaveNoPartInTheRules) {
  AdaptiveOptions options;
  options.b_max = 128;
  MegaBatches batches(options, 2);
  batches.SetHosts({2, 1, 2}, /*own=*/0, /*by_speed=*/false);
  EXPECT_EQ(batches.share_of(0), 5120);
  EXPECT_EQ(batches.share_of(1), 2560);
  batches.SetPart(1, {true, false, 1, {6}, {600}});
  batches.SetPart(2, {false, false, 0, {0, 0}, {0, 0}});
  for (int u = 0; u < 12; ++u) batches.RecordUpdate(u < 9 ? 0 : 1, 100);
  const std::vector<double> weights = batches.Weights(/*small=*/true);
  EXPECT_DOUBLE_EQ(weights[0], 0.5 * 1.1) << "9 of 18 updates, the most";
  EXPECT_DOUBLE_EQ(weights[1], 3. / 18 * 0.9);
  EXPECT_DOUBLE_EQ(weights[2], 6. / 18);
  EXPECT_EQ(weights[3], 0);
  batches.Next(weights);
  const MegaBatches::Record& record = batches.records().back();
  EXPECT_EQ(record.updates, (Sizes{9, 3, 6, 0, 0}));
  EXPECT_EQ(SizesOf(batches), (Sizes{128, 104})) << "the mean is 6, beta 8";
  EXPECT_EQ(batches.share_of(0) + batches.share_of(1), 12800);
  EXPECT_EQ(batches.share_of(2), 5120) << "as it was";
}

TEST(MegaBatchesTest, RowsAreDividedAsSpeeds) {
  EXPECT_EQ(DivideRows(100, {1, 1}, 1), (Sizes{50, 50}));
  EXPECT_EQ(DivideRows(101, {1, 1}, 1), (Sizes{51, 50}));
  EXPECT_EQ(DivideRows(100, {4, 1}, 8), (Sizes{80, 20}));
  EXPECT_EQ(DivideRows(100, {99, 1}, 8), (Sizes{92, 8})) << "at least so many";
  EXPECT_EQ(DivideRows(30, {100, 11, 1}, 10), (Sizes{10, 10, 10}));
  EXPECT_EQ(DivideRows(100, {0, 3, 3}, 2), (Sizes{2, 49, 49}));
  std::mt19937 random(0);
  for (int draw = 0; draw < 2000; ++draw) {
    std::vector<double> speeds(1 + random() % 20);
    for (double& speed : speeds) speed = 1e-3 + (random() % 100'000) / 7.0;
    const auto count = static_cast<int64_t>(speeds.size());
    const int64_t least = 1 + static_cast<int64_t>(random() % 100);
    const int64_t rows = least * count + static_cast<int64_t>(random() % 10'000);
    const Sizes shares = DivideRows(rows, speeds, least);
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), int64_t{0}), rows);
    for (int64_t share : shares) EXPECT_GE(share, least);
  }
}

// Invariants under random histories.
TEST(MegaBatchesTest, SizesAndWeightsKeepWithinTheirBounds) {
  std::mt19937 random(0);
  for (int history = 0; history < 200; ++history) {
    const int num_learners = 1 + static_cast<int>(random() % 6);
    AdaptiveOptions options;
    options.b_max = 1 + random() % 300;
    options.beta = 0.1 + random() % 50;
    MegaBatches batches(options, num_learners);
    for (int k = 0; k < 20; ++k) {
      std::vector<int64_t> updates(num_learners);
      for (int64_t& u : updates) u = random() % 30;
      updates[random() % num_learners] += 1;
      const std::vector<double> weights = Train(&batches, updates);
      EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.), 1, 1e-12);
      for (int64_t size : SizesOf(batches)) {
        EXPECT_GE(size, batches.options().b_min);
        EXPECT_LE(size, batches.options().b_max);
      }
    }
  }
}

TEST(RowCutterTest, TurnsAreTakenWhoeverAsksFirst) {
  RowCutter cutter;
  EXPECT_EQ(cutter.Begin(10, 21, {4, 2}, SchedulingPolicy::kRoundRobin, 0), 0);
  const auto is = [](const std::optional<RowCutter::Batch>& batch, int64_t number,
                     int64_t begin, int64_t end) {
    return batch.has_value() && batch->number == number && batch->begin == begin &&
           batch->end == end;
  };
  EXPECT_TRUE(is(cutter.Next(1), 1, 14, 16));
  EXPECT_TRUE(is(cutter.Next(0), 0, 10, 14));
  EXPECT_TRUE(is(cutter.Next(0), 2, 16, 20));
  EXPECT_FALSE(cutter.Next(0).has_value());
  EXPECT_TRUE(is(cutter.Next(1), 3, 20, 21)) << "what is left";
  EXPECT_FALSE(cutter.Next(1).has_value());
  EXPECT_EQ(cutter.Begin(21, 22, {4, 2}, SchedulingPolicy::kRoundRobin, 1), 0);
  EXPECT_FALSE(cutter.Next(0).has_value());
  EXPECT_TRUE(is(cutter.Next(1), 4, 21, 22)) << "numbers and turns go on";
}

TEST(RowCutterTest, EveryRowIsHandedOutOnce) {
  RowCutter cutter;
  EXPECT_EQ(
      cutter.Begin(0, 10'007, {3, 7, 1}, SchedulingPolicy::kFirstComeFirstServed, 2),
      2);
  std::vector<std::vector<RowCutter::Batch>> taken(3);
  std::vector<std::thread> learners;
  for (int j = 0; j < 3; ++j) {
    learners.emplace_back([&, j] {
      while (const auto batch = cutter.Next(j)) taken[j].push_back(*batch);
    });
  }
  for (std::thread& learner : learners) learner.join();
  std::vector<int> rows(10'007), numbers(10'007);
  for (int j = 0; j < 3; ++j) {
    for (const RowCutter::Batch& batch : taken[j]) {
      EXPECT_LE(batch.end - batch.begin, (std::vector<int64_t>{3, 7, 1})[j]);
      ++numbers[batch.number];
      for (int64_t row = batch.begin; row < batch.end; ++row) ++rows[row];
    }
  }
  EXPECT_EQ(rows, std::vector<int>(10'007, 1));
  for (int count : numbers) EXPECT_LE(count, 1);
}

}  // namespace
}  // namespace tensorbow
