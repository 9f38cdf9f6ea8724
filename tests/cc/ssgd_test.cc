// S-SGD's exchange of gradients between learners, with real threads.
#include "cc/synchroniser/algorithms/ssgd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "cc/synchroniser/synchroniser.h"

namespace tensorbow {
namespace {

constexpr int kLearners = 3;

class SsgdTest : public testing::TestWithParam<std::chrono::microseconds> {
 protected:
  SsgdTest()
      : synchroniser_(kLearners, &model_, GetParam(), std::make_unique<Ssgd>(&model_)),
        scheduler_(kLearners),
        set_(kLearners, {}) {
    set_.set_exchanges(2, 0);
  }

  // Executes `tasks` tasks; `work(learner, task)` returns whether to continue.
  int64_t Run(int64_t tasks, const std::function<bool(int, int64_t)>& work) {
    scheduler_.Begin(tasks, SchedulingPolicy::kRoundRobin);
    synchroniser_.BeginRun(&set_, &scheduler_);
    std::vector<std::thread> threads;
    for (int j = 0; j < kLearners; ++j) {
      threads.emplace_back([&, j] {
        auto assignment = scheduler_.Next(j);
        while (assignment.has_value() && !synchroniser_.pace(j).Aborted()) {
          if (!synchroniser_.pace(j).BeforeTask()) break;
          if (!work(j, assignment->task)) {
            synchroniser_.pace(j).Abort();
            break;
          }
          if (!synchroniser_.pace(j).AfterTask()) break;
          assignment = scheduler_.Next(j);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    return synchroniser_.EndRun();
  }

  CentralModel model_{CentralModel::Keeps::kAverageOnly};
  Synchroniser synchroniser_;
  TaskScheduler scheduler_;
  TrainedSet set_;
};

TEST_P(SsgdTest, EverybodyGetsTheMeanOfItsIteration) {
  const int64_t completed = Run(3 * kLearners + 2, [&](int j, int64_t task) {
    const int64_t first = task / kLearners * kLearners;
    const int64_t last = std::min<int64_t>(first + kLearners, 3 * kLearners + 2);
    for (int gradient = 0; gradient < 2; ++gradient) {
      const std::vector<float> own = {float(task), float(10 * task + gradient)};
      std::vector<float> mean(2);
      EXPECT_TRUE(ReduceGradient(synchroniser_.exchange(j), gradient,
                                 ElementType::kFloat32, 2, own.data(), mean.data()));
      const float expected = float(first + last - 1) / 2;
      EXPECT_FLOAT_EQ(mean[0], expected);
      EXPECT_FLOAT_EQ(mean[1], 10 * expected + gradient);
    }
    return true;
  });
  EXPECT_EQ(completed, 4);
}

TEST_P(SsgdTest, LearnerThatDoesNotComeIsLeftOut) {
  Run(kLearners, [&](int j, int64_t) {
    if (j == 1) return true;
    const double own = j;
    double mean = -1;
    EXPECT_TRUE(ReduceGradient(synchroniser_.exchange(j), 1, ElementType::kFloat64, 1,
                               &own, &mean));
    EXPECT_EQ(mean, 1);  // of 0 and 2
    return true;
  });
}

TEST_P(SsgdTest, FailureOfOneWakesTheOthers) {
  const int64_t completed = Run(2 * kLearners, [&](int j, int64_t task) {
    const float own = 1;
    float mean = 0;
    if (task == kLearners + 2) return false;
    return ReduceGradient(synchroniser_.exchange(j), 0, ElementType::kFloat32, 1, &own,
                          &mean);
  });
  EXPECT_EQ(completed, 1);
  // The next run is unaffected.
  EXPECT_EQ(Run(kLearners,
                [&](int j, int64_t) {
                  const float own = 2;
                  float mean = 0;
                  const bool done =
                      ReduceGradient(synchroniser_.exchange(j), 0,
                                     ElementType::kFloat32, 1, &own, &mean);
                  EXPECT_EQ(mean, 2);
                  return done;
                }),
            1);
}

TEST_P(SsgdTest, NarrowGradientsAreSummedInFloat) {
  Run(kLearners, [&](int j, int64_t) {
    // 2048 + 1 is not a half; (2048 + 1 + 1) / 3 is 683.33, in halves 683.5.
    const Half own(j == 0 ? 2048.0f : 1.0f);
    Half mean(0.0f);
    EXPECT_TRUE(ReduceGradient(synchroniser_.exchange(j), 0, ElementType::kFloat16, 1,
                               &own, &mean));
    EXPECT_EQ(float(mean), 683.5f);
    return true;
  });
}

// Every learner does a part for all, as in a fused update.
TEST_P(SsgdTest, LearnersThatGatherShareTheWork) {
  set_.set_exchanges(2, 3);
  constexpr int64_t kTasks = 4 * kLearners + 2;
  std::vector<std::vector<int>> given(kTasks, std::vector<int>(kLearners, -1));
  const int64_t completed = Run(kTasks, [&](int j, int64_t task) {
    for (int update : {0, 2}) {  // nobody reaches 1
      std::vector<int>& mine = given[task];
      const std::vector<const void*> shares =
          synchroniser_.exchange(j).AllGather(set_.update_point(update), &mine);
      EXPECT_EQ(shares.size(), task / kLearners < 4 ? kLearners : 2);
      const auto place =
          std::find(shares.begin(), shares.end(), &mine) - shares.begin();
      EXPECT_EQ(place, j);  // tasks are handed out in turn
      for (const void* other : shares) {
        auto* const theirs = static_cast<std::vector<int>*>(const_cast<void*>(other));
        (*theirs)[place] = 10 * update + j;
      }
      synchroniser_.exchange(j).Release(set_.update_point(update));
      for (size_t i = 0; i < shares.size(); ++i) EXPECT_EQ(mine[i], 10 * update + i);
    }
    return true;
  });
  EXPECT_EQ(completed, 5);
}

TEST_P(SsgdTest, FailureOfOneWakesThoseThatGather) {
  set_.set_exchanges(0, 1);
  const int64_t completed = Run(kLearners, [&](int j, int64_t) {
    if (j == 1) return false;
    EXPECT_TRUE(synchroniser_.exchange(j).AllGather(set_.update_point(0), &j).empty());
    return false;
  });
  EXPECT_EQ(completed, 0);
}

TEST_P(SsgdTest, AverageTakesInSlicesAndWholeVariables) {
  CentralModel model(CentralModel::Keeps::kAverageOnly, /*ema_decay=*/0.5);
  constexpr int64_t kSize = CentralModel::kSliceElements + 3;
  const std::vector<Half> start(kSize, Half(4.0f));
  for (int i = 0; i < 2; ++i) {
    model.Assign(model.Add(ElementType::kFloat16, kSize), start.data());
  }
  Synchroniser ssgd(1, &model, GetParam(), std::make_unique<Ssgd>(&model));
  TaskScheduler scheduler(1);
  TrainedSet set(1, {0, 1});
  set.set_exchanges(0, 1);
  set.set_corrects_itself(0);
  std::vector<Half> weights[] = {start, start};
  for (int i = 0; i < 2; ++i) set.set_weights(0, i, weights[i].data());

  scheduler.Begin(2, SchedulingPolicy::kRoundRobin);
  ssgd.BeginRun(&set, &scheduler);
  for (int iteration = 0; iteration < 2; ++iteration) {
    EXPECT_TRUE(ssgd.pace(0).BeforeTask());
    const int update = 0;
    EXPECT_EQ(ssgd.exchange(0).AllGather(set.update_point(0), &update).size(), 1);
    for (auto& w : weights) {
      std::fill(w.begin(), w.end(), Half(iteration == 0 ? 6.0f : 8.0f));
      w.back() = Half(1.0f);
    }
    for (int s = 0; s < 2; ++s) {
      CentralModel::Variable& variable = ssgd.updates(0).variable(0);
      variable.AverageNext(s, weights[0].data() + variable.slice(s).begin);
    }
    EXPECT_EQ(model.variable(0).iterations(), iteration);
    ssgd.exchange(0).Release(set.update_point(0));
    ssgd.updates(0).Updated(0);
    EXPECT_TRUE(ssgd.pace(0).AfterTask());
  }
  EXPECT_EQ(ssgd.EndRun(), 2);

  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(model.variable(i).iterations(), 2);
    EXPECT_FLOAT_EQ(model.variable(i).average<float>()[kSize - 1],
                    2.0f / 11 * (0.1f * 4 + 0.9f) + 9.0f / 11);
    float average = 4;  // d = 1/10, 2/11
    average = 0.1f * average + 0.9f * 6;
    average = 2.0f / 11 * average + (1 - 2.0f / 11) * 8;
    EXPECT_FLOAT_EQ(model.variable(i).average<float>()[5], average);
  }
}

// Tests an update that is fused but not executed, and one that is not fused.
TEST_P(SsgdTest, AverageMovesInAnIterationThatTheFusedUpdateDoesNotTouch) {
  for (const bool fused : {false, true}) {
    for (const double decay : {0.5, 0.0}) {
      CentralModel model(CentralModel::Keeps::kAverageOnly, decay);
      const float start = 8;
      model.Assign(model.Add(ElementType::kFloat32, 1), &start);
      Synchroniser ssgd(1, &model, GetParam(), std::make_unique<Ssgd>(&model));
      TaskScheduler scheduler(1);
      TrainedSet set(1, {0});
      if (fused) set.set_corrects_itself(0);
      float weight = 4;
      set.set_weights(0, 0, &weight);
      scheduler.Begin(2, SchedulingPolicy::kRoundRobin);
      ssgd.BeginRun(&set, &scheduler);
      for (int iteration = 0; iteration < 2; ++iteration) {
        EXPECT_TRUE(ssgd.pace(0).BeforeTask());
        EXPECT_TRUE(ssgd.pace(0).AfterTask());
      }
      EXPECT_EQ(ssgd.EndRun(), 2);
      EXPECT_EQ(model.variable(0).iterations(), 2);
      if (decay == 0) continue;
      EXPECT_FLOAT_EQ(*model.variable(0).average<float>(),
                      2.0f / 11 * (0.1f * 8 + 0.9f * 4) + 9.0f / 11 * 4);
    }
  }
}

TEST_P(SsgdTest, AverageIsOfWhatThoseThatTookPartHave) {
  CentralModel model(CentralModel::Keeps::kAverageOnly, /*ema_decay=*/0.5);
  const float start = 8;
  model.Assign(model.Add(ElementType::kFloat32, 1), &start);
  Synchroniser ssgd(2, &model, GetParam(), std::make_unique<Ssgd>(&model));
  TaskScheduler scheduler(2);
  TrainedSet set(2, {0});
  set.set_exchanges(1, 0);
  float weights[] = {8, 8};
  for (int j = 0; j < 2; ++j) set.set_weights(j, 0, &weights[j]);

  scheduler.Begin(5, SchedulingPolicy::kRoundRobin);  // the last is learner 0's
  ssgd.BeginRun(&set, &scheduler);
  auto work = [&](int j) {
    while (scheduler.Next(j).has_value()) {
      const float own = 1;
      float mean = 0;
      EXPECT_TRUE(ssgd.pace(j).BeforeTask());
      EXPECT_TRUE(
          ReduceGradient(ssgd.exchange(j), 0, ElementType::kFloat32, 1, &own, &mean));
      weights[j] -= mean;
      EXPECT_TRUE(ssgd.pace(j).AfterTask());
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_EQ(ssgd.EndRun(), 3);

  EXPECT_EQ(weights[1], 6);
  float average = 8;  // d = 1/10, 2/11, 3/12
  average = 0.1f * average + 0.9f * 7;
  average = 2.0f / 11 * average + (1 - 2.0f / 11) * 6;
  average = 0.25f * average + 0.75f * 5;
  EXPECT_FLOAT_EQ(*model.variable(0).average<float>(), average);
}

INSTANTIATE_TEST_SUITE_P(All, SsgdTest,
                         testing::Values(std::chrono::microseconds(0),
                                         std::chrono::microseconds(50)),
                         [](const auto& info) {
                           return info.param.count() > 0 ? "Polling" : "Blocking";
                         });

}  // namespace
}  // namespace tensorbow
