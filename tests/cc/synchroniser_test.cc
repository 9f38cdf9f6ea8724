// What every synchroniser promises of pace and of failures, with real threads, for
// updates that correct by themselves and for those that do not. The algorithm under it
// is SMA; what it computes is sma_test's business.
#include "cc/synchroniser/synchroniser.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "cc/synchroniser/independent.h"
#include "cc/synchroniser/sma.h"

namespace tensorbow {
namespace {

constexpr int kSize = 3 * CentralModel::kSliceElements + 17;

// How the learners' updates are corrected.
enum class Update { kByTheSynchroniser, kByItself, kNowAndThen };

// L learners with replicas of one variable, each on its own thread.
class Learners {
 public:
  Learners(int count, std::chrono::microseconds spin, Update update)
      : sma(count, &model, spin, 1.0 / count, 1),
        scheduler(count),
        replicas(count, std::vector<float>(kSize, 0.0f)),
        update_(update) {
    set = std::make_unique<TrainedSet>(
        count, std::vector<int>{model.Add(ElementType::kFloat32, kSize)}, 0.5);
    for (int j = 0; j < count; ++j) set->set_weights(j, 0, replicas[j].data());
    if (update != Update::kByTheSynchroniser) set->set_corrects_itself(0);
  }

  // Runs `tasks` tasks; `work(learner, task, iteration)` returns whether to go on.
  int64_t Run(int64_t tasks, SchedulingPolicy policy,
              const std::function<bool(int, int64_t, int64_t)>& work) {
    scheduler.Begin(tasks, policy);
    sma.BeginRun(set.get(), &scheduler);
    std::vector<std::thread> threads;
    for (size_t j = 0; j < replicas.size(); ++j) {
      threads.emplace_back([&, j] {
        auto assignment = scheduler.Next(j);
        while (assignment.has_value() && !sma.Aborted(j)) {
          if (!sma.BeforeTask(j)) break;
          if (!work(j, assignment->task, assignment->iteration)) {
            sma.Abort(j);
            break;
          }
          if (!sma.AfterTask(j)) break;
          assignment = scheduler.Next(j);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    return sma.EndRun();
  }

  // What a task does; false if its iteration was aborted by another learner.
  bool Train(int learner, int64_t task) {
    if (update_ == Update::kNowAndThen && task % 3 == 0) return true;
    return Add(learner, 0.001f * float(task % 7 - 3));
  }

  bool Add(int learner, float step) {
    std::vector<float>& w = replicas[learner];
    if (update_ == Update::kByTheSynchroniser) {
      for (float& value : w) value += step;
      return true;
    }
    const CentralModel::Variable& variable = sma.variable(0);
    for (int s = variable.num_slices() - 1; s >= 0; --s) {
      if (!sma.Enter(learner, 0, s)) return false;
      const float* z = sma.Target<float>(learner, 0);
      const CentralModel::Slice slice = variable.slice(s);
      for (int64_t i = slice.begin; i < slice.end; ++i) {
        const float before = w[i];
        w[i] = before + step - float(sma.alpha()) * (before - z[i]);
      }
    }
    sma.Updated(learner, 0);
    return true;
  }

  std::vector<float> Central() {
    std::vector<float> z(kSize);
    model.CopyTo(0, CentralModel::Which::kCurrent, z.data());
    return z;
  }

  CentralModel model;
  Sma sma;
  TaskScheduler scheduler;
  std::unique_ptr<TrainedSet> set;
  std::vector<std::vector<float>> replicas;

 private:
  const Update update_;
};

class SynchroniserTest
    : public testing::TestWithParam<std::tuple<std::chrono::microseconds, Update>> {
 protected:
  std::chrono::microseconds spin() const { return std::get<0>(GetParam()); }
  Update update() const { return std::get<1>(GetParam()); }
};

TEST_P(SynchroniserTest, OutcomeDoesNotDependOnWhoIsFast) {
  std::vector<std::vector<float>> outcomes;
  for (int slow = -1; slow < 3; ++slow) {
    Learners learners(3, spin(), update());
    std::atomic<int> running{0};
    for (int run = 0; run < 5; ++run) {
      const int64_t completed = learners.Run(14, SchedulingPolicy::kRoundRobin,
                                             [&](int j, int64_t task, int64_t) {
                                               if (j == slow) {
                                                 // Gives the others every chance to run
                                                 // ahead.
                                                 for (int i = 0; i < 200; ++i)
                                                   std::this_thread::yield();
                                               }
                                               return learners.Train(j, task);
                                             });
      EXPECT_EQ(completed, 5);
    }
    outcomes.push_back(learners.Central());
    for (const auto& replica : learners.replicas) {
      outcomes.back().insert(outcomes.back().end(), replica.begin(), replica.end());
    }
  }
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome, outcomes[0]);
}

TEST_P(SynchroniserTest, NobodyIsMoreThanOneIterationAheadWhenOneIsSlow) {
  constexpr int kLearners = 3, kIterations = 20;
  Learners learners(kLearners, spin(), update());
  std::vector<std::atomic<int64_t>> started(kLearners), finished(kLearners);
  std::atomic<int64_t> farthest_ahead{0};
  // Where the synchroniser must remember corrections, tasks wait instead.
  const bool may_run_ahead = update() != Update::kByTheSynchroniser;
  learners.Run(
      kLearners * kIterations, SchedulingPolicy::kFirstComeFirstServed,
      [&](int j, int64_t task, int64_t iteration) {
        EXPECT_EQ(started[j].fetch_add(1), iteration);  // one task an iteration
        if (j == 1 && iteration + 1 < kIterations && may_run_ahead) {
          // The slow one: waits until the others have gone as far as they may.
          const auto limit =
              std::chrono::steady_clock::now() + std::chrono::seconds(20);
          while (started[0] < iteration + 2 &&
                 std::chrono::steady_clock::now() < limit) {
            std::this_thread::yield();
          }
        }
        for (int other = 0; other < kLearners; ++other) {
          // `iteration` is under way here: nobody may have started later than the
          // one after the slowest finished.
          const int64_t lead = started[j] - 1 - finished[other];
          int64_t seen = farthest_ahead.load();
          while (lead > seen && !farthest_ahead.compare_exchange_weak(seen, lead)) {
          }
        }
        finished[j].store(iteration + 1);
        learners.Train(j, task);
        return true;
      });
  if (may_run_ahead) {
    EXPECT_EQ(farthest_ahead.load(), 1);
  } else {
    EXPECT_LE(farthest_ahead.load(), 1);
  }
  for (int j = 0; j < kLearners; ++j) EXPECT_EQ(started[j].load(), kIterations);
}

TEST_P(SynchroniserTest, AbortLeavesCompletedIterationsAndNothingElse) {
  Learners learners(2, spin(), update()), reference(2, spin(), update());
  auto train = [](Learners& l) {
    return [&l](int j, int64_t task, int64_t) { return l.Train(j, task); };
  };
  reference.Run(6, SchedulingPolicy::kRoundRobin, train(reference));
  const int64_t completed = learners.Run(40, SchedulingPolicy::kRoundRobin,
                                         [&](int j, int64_t task, int64_t iteration) {
                                           if (iteration == 3 && j == 1) return false;
                                           return learners.Train(j, task);
                                         });
  EXPECT_EQ(completed, 3);
  EXPECT_EQ(learners.Central(), reference.Central());
  // And the session goes on from there.
  learners.sma.Restart(*learners.set);
  for (const auto& replica : learners.replicas) EXPECT_EQ(replica, learners.Central());
  EXPECT_EQ(learners.Run(4, SchedulingPolicy::kRoundRobin, train(learners)), 2);
}

TEST_P(SynchroniserTest, FirstTaskFailingCompletesNothing) {
  Learners learners(3, spin(), update());
  const auto before = learners.Central();
  EXPECT_EQ(learners.Run(3, SchedulingPolicy::kRoundRobin,
                         [&](int j, int64_t task, int64_t) {
                           learners.Train(j, task);
                           return j != 2;
                         }),
            0);
  EXPECT_EQ(learners.Central(), before);
}

TEST_P(SynchroniserTest, ShortIterationsLeaveLearnersOut) {
  Learners learners(4, spin(), update());
  for (int64_t tasks = 1; tasks <= 9; ++tasks) {
    std::atomic<int64_t> executed{0};
    const int64_t iterations =
        learners.Run(tasks, SchedulingPolicy::kFirstComeFirstServed,
                     [&](int j, int64_t task, int64_t) {
                       learners.Train(j, task);
                       executed.fetch_add(1);
                       return true;
                     });
    EXPECT_EQ(iterations, (tasks + 3) / 4);
    EXPECT_EQ(executed.load(), tasks);
  }
}

TEST_P(SynchroniserTest, SitOutOfEverybodyIsNoIteration) {
  Learners learners(2, spin(), update());
  learners.Run(6, SchedulingPolicy::kRoundRobin,
               [&](int j, int64_t task, int64_t) { return learners.Train(j, task); });
  const std::vector<float> before = learners.Central();
  learners.scheduler.Begin(2, SchedulingPolicy::kRoundRobin);
  learners.sma.BeginRun(learners.set.get(), &learners.scheduler);
  EXPECT_TRUE(learners.sma.BeforeTask(0));
  EXPECT_TRUE(learners.sma.BeforeTask(1));
  EXPECT_TRUE(learners.sma.SitOut(0));
  EXPECT_TRUE(learners.sma.SitOut(1));
  EXPECT_EQ(learners.sma.EndRun(), 0);
  EXPECT_EQ(learners.set->iterations, 3);
  EXPECT_EQ(learners.Central(), before);
}

TEST_P(SynchroniserTest, SitOutOfOneIsAShortIteration) {
  // L = 2, α = 1/2, μ = 1/2: after w = (1, 3) and z = 0 only learner 1 goes on.
  Learners learners(2, spin(), update());
  learners.Run(2, SchedulingPolicy::kRoundRobin, [&](int j, int64_t, int64_t) {
    return learners.Add(j, j == 0 ? 1 : 3);
  });
  learners.scheduler.Begin(2, SchedulingPolicy::kRoundRobin);
  learners.sma.BeginRun(learners.set.get(), &learners.scheduler);
  EXPECT_TRUE(learners.sma.BeforeTask(0));
  EXPECT_TRUE(learners.sma.SitOut(0));
  EXPECT_TRUE(learners.sma.BeforeTask(1));
  EXPECT_TRUE(learners.Add(1, 0));
  EXPECT_TRUE(learners.sma.AfterTask(1));
  EXPECT_EQ(learners.sma.EndRun(), 1);
  for (float w : learners.replicas[0]) ASSERT_EQ(w, 1);
  for (float w : learners.replicas[1]) ASSERT_EQ(w, 1.5);
  for (float z : learners.Central()) ASSERT_EQ(z, 1.5);
}

TEST(SynchroniserBitsTest, CorrectingByItselfOrNotMakesNoDifference) {
  std::vector<std::vector<float>> outcomes;
  for (Update update : {Update::kByTheSynchroniser, Update::kByItself}) {
    Learners learners(3, std::chrono::microseconds(0), update);
    learners.Run(20, SchedulingPolicy::kRoundRobin,
                 [&](int j, int64_t task, int64_t) { return learners.Train(j, task); });
    outcomes.push_back(learners.Central());
    for (const auto& replica : learners.replicas) {
      outcomes.back().insert(outcomes.back().end(), replica.begin(), replica.end());
    }
  }
  EXPECT_EQ(outcomes[0], outcomes[1]);
}

TEST(IndependentTest, LearnersAreLeftAlone) {
  CentralModel model;
  Independent independent(2, &model, std::chrono::microseconds(0));
  TaskScheduler scheduler(2);
  std::vector<std::vector<float>> w{{1, 2}, {3, 4}};
  TrainedSet set(2, {model.Add(ElementType::kFloat32, 2)}, 0.9);
  for (int j = 0; j < 2; ++j) set.set_weights(j, 0, w[j].data());
  scheduler.Begin(6, SchedulingPolicy::kRoundRobin);
  independent.BeginRun(&set, &scheduler);
  std::vector<std::thread> threads;
  for (int j = 0; j < 2; ++j) {
    threads.emplace_back([&, j] {
      while (scheduler.Next(j).has_value()) {
        EXPECT_TRUE(independent.BeforeTask(j));
        for (float& value : w[j]) value += 1;
        EXPECT_TRUE(independent.AfterTask(j));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(independent.EndRun(), 3);
  EXPECT_EQ(w[0], (std::vector<float>{4, 5}));
  EXPECT_EQ(w[1], (std::vector<float>{6, 7}));
}

std::string NameOf(const testing::TestParamInfo<SynchroniserTest::ParamType>& info) {
  const char* const updates[] = {"CorrectedByTheSynchroniser", "CorrectingItself",
                                 "NowAndThen"};
  return std::string(std::get<0>(info.param).count() > 0 ? "Polling" : "Blocking") +
         updates[static_cast<int>(std::get<1>(info.param))];
}

INSTANTIATE_TEST_SUITE_P(
    All, SynchroniserTest,
    testing::Combine(testing::Values(std::chrono::microseconds(0),
                                     std::chrono::microseconds(50)),
                     testing::Values(Update::kByTheSynchroniser, Update::kByItself,
                                     Update::kNowAndThen)),
    NameOf);

}  // namespace
}  // namespace tensorbow
