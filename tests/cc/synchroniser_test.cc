// The synchroniser's guarantees about pace and failures, for every algorithm. All
// algorithms go through one loop (learners.h), with threads that poll and that block.
// Updates correct by themselves, do not, or are executed now and then. Tests of each
// algorithm check its results.
#include "cc/synchroniser/synchroniser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/cc/averaging_model.h"
#include "tests/cc/learners.h"

namespace tensorbow {
namespace {

using End = Learners::End;
using std::chrono::microseconds;

constexpr auto kFirstCome = SchedulingPolicy::kFirstComeFirstServed;
constexpr auto kInTurn = SchedulingPolicy::kRoundRobin;

SmaOptions CurrentCentre(int64_t period) {
  return {SmaOptions::Centre::kCurrent, 0.25, period, 0};
}
SmaOptions LaggingCentre(int64_t period, double momentum) {
  return {SmaOptions::Centre::kLagging, 0.25, period, momentum};
}

const std::vector<AlgorithmCase>& AveragingCases() {
  static const auto* const cases = new std::vector<AlgorithmCase>{
      {"Current", AlgorithmCase::Kind::kSma, CurrentCentre(1), 0.9},
      {"CurrentEverySecond", AlgorithmCase::Kind::kSma, CurrentCentre(2), 0.9},
      {"Lagging", AlgorithmCase::Kind::kSma, LaggingCentre(1, 0.5), 0.9},
      {"LaggingEverySecond", AlgorithmCase::Kind::kSma, LaggingCentre(2, 0), 0.9}};
  return *cases;
}

std::vector<AlgorithmCase> AllCases() {
  std::vector<AlgorithmCase> cases = AveragingCases();
  cases.push_back({"Ssgd", AlgorithmCase::Kind::kSsgd, {}, 0.9});
  cases.push_back({"Independent", AlgorithmCase::Kind::kIndependent, {}, 0});
  return cases;
}

// Waits for other threads, which the machine may delay. Returns false if they never
// arrive.
bool Await(const std::function<bool()>& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::yield();
  }
  return true;
}

using Parameters = std::tuple<AlgorithmCase, Update, microseconds>;

class SynchroniserTest : public testing::TestWithParam<Parameters> {
 protected:
  const AlgorithmCase& algorithm() const { return std::get<0>(GetParam()); }
  Update update() const { return std::get<1>(GetParam()); }
  microseconds spin() const { return std::get<2>(GetParam()); }

  Learners NewLearners(int count) const {
    return Learners(algorithm(), count, update(), spin());
  }
  // Returns whether a learner can start a task while another is at its task of the
  // iteration before. It cannot if corrections are remembered before the task, or if
  // all exchange gradients within it.
  bool may_run_ahead() const {
    if (algorithm().kind == AlgorithmCase::Kind::kSma) {
      return update() != Update::kByTheSynchroniser;
    }
    return algorithm().kind == AlgorithmCase::Kind::kIndependent;
  }
};

// Tests of algorithms with a z.
class AveragingTest : public SynchroniserTest {
 protected:
  // Learners with their expected values: in double precision, by member, since tasks
  // may skip one.
  struct Compared {
    explicit Compared(const AveragingTest& test, int count)
        : learners(test.NewLearners(count)) {
      std::vector<double> start;
      for (int i = 0; i < Learners::kPattern; ++i) start.push_back(Learners::Start(i));
      for (int m = 0; m < Learners::kMembers; ++m) {
        model.emplace_back(test.algorithm().sma, test.algorithm().ema_decay, count,
                           start);
      }
    }

    // Executes a run of both, which the learners in `no_data` skip.
    void Run(int64_t tasks, const std::vector<int>& no_data = {}) {
      const auto has_data = [&](int j) {
        return std::find(no_data.begin(), no_data.end(), j) == no_data.end();
      };
      learners.Run(tasks, kInTurn, [&](int j, int64_t task, int64_t) {
        return has_data(j) ? learners.Train(j, task) : End::kNoData;
      });
      const int count = learners.count();
      for (int64_t first = 0; first < tasks; first += count) {
        for (int m = 0; m < Learners::kMembers; ++m) {
          AveragingModel::Updates updates(count);
          for (int j = 0; j < count && first + j < tasks; ++j) {
            if (!has_data(j)) continue;
            const int64_t task = first + j;
            updates[j] = learners.Skips(task, m) ? 0 : Learners::StepOf(task, m);
          }
          model[m].Iterate(updates);
        }
      }
    }

    void Compare() {
      learners.Collect();
      const auto near = [](const float* got, const std::vector<double>& wanted,
                           int64_t size) {
        double most = 0;
        for (int64_t i = 0; i < size; ++i) {
          const double difference = std::abs(got[i] - wanted[i % wanted.size()]);
          most = std::isnan(difference) ? INFINITY : std::max(most, difference);
        }
        return most < 1e-5;
      };
      for (int m = 0; m < Learners::kMembers; ++m) {
        const CentralModel::Variable& v = learners.model().variable(m);
        EXPECT_TRUE(near(v.z<float>(), model[m].z(), v.size())) << "z " << m;
        EXPECT_TRUE(near(v.average<float>(), model[m].average(), v.size()))
            << "average " << m;
        EXPECT_EQ(learners.synchroniser().participants(m), model[m].present());
        for (int j : model[m].present()) {
          const auto* const w = static_cast<const float*>(learners.set().weights(j, m));
          EXPECT_TRUE(near(w, model[m].w(j), v.size())) << "w " << j << " " << m;
        }
      }
    }

    Learners learners;
    std::vector<AveragingModel> model;
  };
};

// -------------------------------------------------------------------------- pace

TEST_P(SynchroniserTest, OutcomeDoesNotDependOnWhoIsFast) {
  std::vector<std::vector<std::vector<float>>> outcomes;
  for (int slow = -1; slow < 3; ++slow) {
    Learners learners = NewLearners(3);
    for (int run = 0; run < 3; ++run) {
      const auto task = [&](int j, int64_t task, int64_t) {
        // Gives the others every chance to run ahead.
        for (int i = 0; j == slow && i < 200; ++i) std::this_thread::yield();
        return learners.Train(j, task);
      };
      EXPECT_EQ(learners.Run(14, kInTurn, task), 5);
    }
    outcomes.push_back(learners.Outcome());
  }
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome, outcomes[0]);
}

TEST_P(SynchroniserTest, OutcomeDoesNotDependOnWhoJoinsLate) {
  std::vector<std::vector<std::vector<float>>> outcomes;
  for (int late = -1; late < 3; ++late) {
    Learners learners = NewLearners(3);
    for (int run = 0; run < 2; ++run) {
      std::atomic<int64_t> began{0};  // tasks of the others
      // The others have advanced as far as they can: into this iteration, or the next
      // one.
      const int64_t far = may_run_ahead() ? 4 : 2;
      EXPECT_EQ(learners.Run(
                    9, kInTurn,
                    [&](int j, int64_t task, int64_t) {
                      if (j != late) began.fetch_add(1);
                      return learners.Train(j, task);
                    },
                    [&](int j) {
                      if (j != late) return;
                      EXPECT_TRUE(Await([&] { return began >= far; }));
                    }),
                3);
    }
    outcomes.push_back(learners.Outcome());
  }
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome, outcomes[0]);
}

TEST_P(SynchroniserTest, NobodyIsMoreThanOneIterationAheadWhenOneIsSlow) {
  constexpr int kLearners = 3, kIterations = 20;
  Learners learners = NewLearners(kLearners);
  std::vector<std::atomic<int64_t>> began(kLearners), ended(kLearners);
  std::atomic<int64_t> farthest_ahead{0};
  const auto task = [&](int j, int64_t task, int64_t iteration) {
    EXPECT_EQ(began[j].fetch_add(1), iteration);  // one task per iteration
    if (j == 1 && iteration + 1 < kIterations && may_run_ahead()) {
      // The slow one waits until another has advanced as far as it may.
      EXPECT_TRUE(Await([&] { return began[0] >= iteration + 2; }));
    }
    for (int other = 0; other < kLearners; ++other) {
      const int64_t ahead = iteration - ended[other];
      int64_t seen = farthest_ahead.load();
      while (ahead > seen && !farthest_ahead.compare_exchange_weak(seen, ahead)) {
      }
    }
    const End end = learners.Train(j, task);
    ended[j].store(iteration + 1);
    return end;
  };
  EXPECT_EQ(learners.Run(kLearners * kIterations, kFirstCome, task), kIterations);
  if (may_run_ahead()) {
    EXPECT_EQ(farthest_ahead.load(), 1);
  } else {
    EXPECT_LE(farthest_ahead.load(), 1);
  }
  for (int j = 0; j < kLearners; ++j) EXPECT_EQ(began[j].load(), kIterations);
}

// ------------------------------------------------------------------------ aborts

TEST_P(SynchroniserTest, AbortedIterationAndLaterOnesDoNotCount) {
  for (int failing = 0; failing < 3; ++failing) {
    Learners learners = NewLearners(3);
    const auto task = [&](int j, int64_t task, int64_t iteration) {
      return iteration == 3 && j == failing ? End::kFailed : learners.Train(j, task);
    };
    EXPECT_EQ(learners.Run(30, kInTurn, task), 3);
    EXPECT_EQ(learners.set().iterations(), 3);
    // The session continues from there.
    learners.synchroniser().Restart(learners.set());
    EXPECT_EQ(learners.Run(7), 3);
    EXPECT_EQ(learners.set().iterations(), 6);
  }
}

TEST_P(AveragingTest, AbortLeavesCompletedIterationsAndNothingElse) {
  for (const bool after_its_updates : {false, true}) {
    for (const int64_t iterations : {0, 1, 3, 4}) {
      Learners learners = NewLearners(3), reference = NewLearners(3);
      reference.Run(3 * iterations);
      reference.Collect();
      const auto task = [&](int j, int64_t task, int64_t iteration) {
        const bool fails = iteration == iterations && j == 1;
        if (fails && !after_its_updates) return End::kFailed;
        const End end = learners.Train(j, task);
        return fails ? End::kFailed : end;
      };
      EXPECT_EQ(learners.Run(30, kInTurn, task), iterations);
      learners.synchroniser().Restart(learners.set());
      // z is the value before the aborted iteration, bit for bit.
      EXPECT_EQ(learners.Central(), reference.Central());
      for (int j = 0; j < 3; ++j) EXPECT_EQ(learners.Replica(j), learners.Central());
      reference.synchroniser().Restart(reference.set());
      EXPECT_EQ(learners.Outcome(), reference.Outcome());
      EXPECT_EQ(learners.Run(9), 3);
      EXPECT_EQ(reference.Run(9), 3);
      EXPECT_EQ(learners.Outcome(), reference.Outcome());
    }
  }
}

TEST_P(AveragingTest, AbortAfterAShortIterationLeavesItsZ) {
  Learners learners = NewLearners(3), reference = NewLearners(3);
  for (Learners* both : {&learners, &reference}) both->Run(4);  // {0, 1, 2}, {0}
  reference.Collect();
  const auto task = [&](int j, int64_t task, int64_t) {
    learners.Train(j, task);
    return j == 2 ? End::kFailed : End::kTrained;
  };
  EXPECT_EQ(learners.Run(3, kInTurn, task), 0);
  learners.synchroniser().Restart(learners.set());
  EXPECT_EQ(learners.Central(), reference.Central());
  for (int j = 0; j < 3; ++j) EXPECT_EQ(learners.Replica(j), reference.Central());
  EXPECT_EQ(learners.synchroniser().participants(0), (std::vector<int>{0, 1, 2}));
}

TEST_P(SynchroniserTest, FirstTaskFailingCompletesNothing) {
  Learners learners = NewLearners(3);
  const auto before = learners.Replica(0);
  const auto task = [&](int j, int64_t task, int64_t) {
    learners.Train(j, task);
    return j == 2 ? End::kFailed : End::kTrained;
  };
  EXPECT_EQ(learners.Run(3, kInTurn, task), 0);
  EXPECT_EQ(learners.set().iterations(), 0);
  learners.synchroniser().Restart(learners.set());
  if (!learners.synchroniser().traits().averages_models()) return;
  learners.Collect();
  EXPECT_EQ(learners.Central(), before);
  for (int j = 0; j < 3; ++j) EXPECT_EQ(learners.Replica(j), before);
}

TEST_P(SynchroniserTest, WhoeverIsAheadLearnsOfTheAbort) {
  Learners learners = NewLearners(2);
  std::atomic<int64_t> began{0};
  const auto task = [&](int j, int64_t task, int64_t iteration) {
    if (j == 0) began.store(iteration + 1);
    if (j == 1 && iteration == 1) {
      // The other one already waits for this one, as far ahead as it can be.
      EXPECT_TRUE(Await([&] { return began >= (may_run_ahead() ? 3 : 2); }));
      return End::kFailed;
    }
    return learners.Train(j, task);
  };
  EXPECT_EQ(learners.Run(40, kInTurn, task), 1);
  EXPECT_LE(began.load(), 3);
}

// -------------------------------------------------------- learners without a task

TEST_P(SynchroniserTest, ShortIterationsLeaveLearnersOut) {
  Learners learners = NewLearners(4);
  for (int64_t tasks = 1; tasks <= 9; ++tasks) {
    std::vector<std::atomic<int>> last(4);  // iteration of each learner, from 1
    std::atomic<int64_t> executed{0};
    const int64_t iterations =
        learners.Run(tasks, kFirstCome, [&](int j, int64_t task, int64_t iteration) {
          executed.fetch_add(1);
          last[j].store(static_cast<int>(iteration) + 1);
          return learners.Train(j, task);
        });
    EXPECT_EQ(iterations, (tasks + 3) / 4);
    EXPECT_EQ(executed.load(), tasks);
    std::vector<int> present;
    for (int j = 0; j < 4; ++j) {
      if (last[j] == iterations) present.push_back(j);
    }
    EXPECT_EQ(learners.synchroniser().participants(0), present);
  }
}

TEST_P(SynchroniserTest, SitOutOfEverybodyIsNoIteration) {
  Learners learners = NewLearners(2), reference = NewLearners(2);
  for (Learners* both : {&learners, &reference}) both->Run(7);
  const auto no_data = [](int, int64_t, int64_t) { return End::kNoData; };
  const auto before = learners.Replica(0);
  EXPECT_EQ(learners.Run(2, kInTurn, no_data), 0);
  EXPECT_EQ(learners.set().iterations(), 4);
  EXPECT_EQ(learners.synchroniser().participants(1), std::vector<int>{0});
  EXPECT_EQ(learners.Replica(0), before);
  // The next runs are unaffected, except that a z which had been prepared costs the
  // central model its momentum.
  if (algorithm().sma.momentum > 0 && update() == Update::kByTheSynchroniser) {
    for (int m = 0; m < Learners::kMembers; ++m) reference.model().ForgetMomentum(m);
  }
  for (Learners* both : {&learners, &reference}) EXPECT_EQ(both->Run(8), 4);
  EXPECT_EQ(learners.Outcome(), reference.Outcome());
}

TEST_P(AveragingTest, SitOutOfOneIsAShortIteration) {
  for (int absent = 0; absent < 3; ++absent) {
    Compared compared(*this, 3);
    compared.Run(6);
    compared.Run(3, {absent});
    compared.Compare();
    compared.Run(9);
    compared.Compare();
  }
}

TEST_P(AveragingTest, LearnerThatSatOutBeginsItsNextTaskFromZ) {
  Learners learners = NewLearners(3);
  learners.Run(7);  // in turn: the last task is learner 0's alone
  for (int run = 0; run < 20; ++run) {
    EXPECT_EQ(learners.synchroniser().participants(0), std::vector<int>{0});
    learners.Collect();
    const std::vector<float> z = learners.Central();
    std::vector<std::vector<float>> began(3);
    const int64_t tasks = run % 5 == 4 ? 4 : run % 5 == 3 ? 0 : 1;
    learners.Run(tasks, kInTurn, [&](int j, int64_t task, int64_t iteration) {
      if (iteration == 0) began[j] = learners.Replica(j);
      return learners.Train(j, task);
    });
    if (tasks == 4) {
      EXPECT_EQ(began[1], z);
      EXPECT_EQ(began[2], z);
    }
  }
}

TEST_P(AveragingTest, NoReplicaIsStaleAfterRunsOfOneTask) {
  Compared compared(*this, 3);
  compared.Run(6);
  for (int run = 0; run < 10; ++run) compared.Run(1);
  compared.Compare();
  compared.Run(12);
  compared.Compare();
  for (int64_t tasks : {1, 2, 4, 1, 5, 3}) {
    compared.Run(tasks);
    compared.Compare();
  }
}

// --------------------------------------------------------------------------- bits

TEST_P(AveragingTest, ReadingZBetweenRunsChangesNothing) {
  Learners read(algorithm(), 3, update(), spin(), /*skips=*/true);
  Learners unread(algorithm(), 3, update(), spin(), /*skips=*/true);
  for (int64_t tasks : {3, 1, 3, 0, 5, 2, 9}) {
    for (Learners* both : {&read, &unread}) both->Run(tasks);
    read.Collect();
    read.Collect();
  }
  EXPECT_EQ(read.Outcome(), unread.Outcome());
}

// An iteration trains nothing, between others that do: one that is due, one that is
// not.
TEST_P(AveragingTest, ReadingZAfterATaskThatUpdatesNothingChangesNothing) {
  Learners read = NewLearners(2), unread = NewLearners(2);
  for (int run = 0; run < 6; ++run) {
    for (Learners* both : {&read, &unread}) {
      both->Run(2, kInTurn, [&](int j, int64_t task, int64_t) {
        return run % 3 == 2 ? End::kTrained : both->Train(j, task + run);
      });
    }
    read.Collect();
  }
  EXPECT_EQ(read.Outcome(), unread.Outcome());
}

using AllSynchroniserTest = testing::TestWithParam<AlgorithmCase>;

TEST_P(AllSynchroniserTest, CorrectingByItselfOrNotMakesNoDifferenceToTheBits) {
  for (const bool skips : {false, true}) {
    Learners by_itself(GetParam(), 3, Update::kByItself, microseconds(0), skips);
    Learners other(GetParam(), 3, Update::kByTheSynchroniser, microseconds(0), skips);
    for (int64_t tasks : {20, 1, 2, 9}) {
      for (Learners* both : {&by_itself, &other}) both->Run(tasks);
    }
    EXPECT_EQ(by_itself.Outcome(), other.Outcome());
  }
}

TEST(IndependentTest, LearnersAreLeftAlone) {
  const AlgorithmCase independent{"", AlgorithmCase::Kind::kIndependent};
  for (Update update : {Update::kByTheSynchroniser, Update::kByItself}) {
    Learners learners(independent, 2, update, microseconds(0));
    learners.Run(6, kInTurn, [&](int j, int64_t, int64_t) {
      return learners.Add(j, 0, j == 0 ? 1 : 4) ? End::kTrained : End::kFailed;
    });
    EXPECT_EQ(learners.Replica(0)[2], Learners::Start(2) + 3);
    EXPECT_EQ(learners.Replica(1)[2], Learners::Start(2) + 12);
    learners.Run(1);
    learners.synchroniser().Restart(learners.set());  // nothing to restart from
    EXPECT_EQ(learners.Replica(1)[2], Learners::Start(2) + 12);
  }
}

// ---------------------------------------------------------------------------- all

std::string NameOf(const testing::TestParamInfo<Parameters>& info) {
  const char* const updates[] = {"ByTheSynchroniser", "ByItself", "NowAndThen"};
  return std::get<0>(info.param).name +
         updates[static_cast<int>(std::get<1>(info.param))];
}

const auto kUpdates =
    testing::Values(Update::kByTheSynchroniser, Update::kByItself, Update::kNowAndThen);
const auto kBlocks = testing::Values(microseconds(0));
// Waiting is the same for all updates.
const auto kByItself = testing::Values(Update::kByItself);
const auto kPolls = testing::Values(microseconds(50));

INSTANTIATE_TEST_SUITE_P(Blocking, SynchroniserTest,
                         testing::Combine(testing::ValuesIn(AllCases()), kUpdates,
                                          kBlocks),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Polling, SynchroniserTest,
                         testing::Combine(testing::ValuesIn(AllCases()), kByItself,
                                          kPolls),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Blocking, AveragingTest,
                         testing::Combine(testing::ValuesIn(AveragingCases()), kUpdates,
                                          kBlocks),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Polling, AveragingTest,
                         testing::Combine(testing::ValuesIn(AveragingCases()),
                                          kByItself, kPolls),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(All, AllSynchroniserTest, testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tensorbow
