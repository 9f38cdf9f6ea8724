// The lagging centre over several hosts, against a plain model of all learners.
#include "cc/synchroniser/algorithms/lagging_hosts.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "cc/synchroniser/hosts/host_rounds.h"
#include "tests/cc/averaging_model.h"
#include "tests/cc/hosts_of_learners.h"
#include "tests/cc/learners.h"

namespace tensorbow {
namespace {

using End = Learners::End;
using Result = HostRounds::Result;
using Kind = HostRounds::Kind;

class LaggingHostsTest : public testing::TestWithParam<std::tuple<Update, int64_t>> {
 protected:
  static constexpr int kLearners = 3;  // of a host

  LaggingHostsTest()
      : algorithm_(
            Averaging(kLearners * kHosts, std::get<1>(GetParam()), Centre::kLagging)),
        hosts_(algorithm_, kLearners, std::get<0>(GetParam())) {
    std::vector<double> start;
    for (int i = 0; i < Learners::kPattern; ++i) start.push_back(Learners::Start(i));
    for (int m = 0; m < Learners::kMembers; ++m) {
      models_.emplace_back(algorithm_.sma, algorithm_.ema_decay, kLearners * kHosts,
                           start);
    }
  }

  // Executes a run on both hosts, with these numbers of tasks and equally many
  // iterations.
  void Run(const std::array<int64_t, kHosts>& tasks) {
    hosts_.Do([&](int rank, Learners& host) { host.Run(tasks[rank]); });
    for (int64_t i = 0; i * kLearners < tasks[0]; ++i) {
      for (int m = 0; m < Learners::kMembers; ++m) {
        AveragingModel::Updates updates;
        for (int j = 0; j < kLearners * kHosts; ++j) {
          const int64_t task = i * kLearners + j % kLearners;
          updates.emplace_back();
          if (task < tasks[j / kLearners]) updates[j] = Learners::StepOf(task, m);
        }
        models_[m].Iterate(updates);
      }
    }
  }

  // Checks that z and its average are the model's on both hosts.
  void ExpectTheModels() {
    hosts_.Do([](int, Learners& host) { host.Collect(); });
    EXPECT_EQ(hosts_[0].Central(), hosts_[1].Central());
    for (int rank = 0; rank < kHosts; ++rank) {
      for (int m = 0; m < Learners::kMembers; ++m) {
        const CentralModel::Variable& v = hosts_[rank].model().variable(m);
        for (int64_t i = 0; i < v.size(); ++i) {
          const int64_t k = i % Learners::kPattern;
          ASSERT_NEAR(v.z<float>()[i], models_[m].z()[k], 1e-5);
          ASSERT_NEAR(v.average<float>()[i], models_[m].average()[k], 1e-5);
        }
      }
    }
  }

  const AlgorithmCase algorithm_;
  HostsOfLearners hosts_;
  std::vector<AveragingModel> models_;  // of all learners, by member
};

TEST_P(LaggingHostsTest, LearnersThatSitOutAddNoCorrection) {
  for (const auto& tasks :
       {std::array<int64_t, kHosts>{5, 6}, {6, 4}, {1, 3}, {9, 9}}) {
    Run(tasks);
    ExpectTheModels();
  }
}

TEST_P(LaggingHostsTest, ARestartOnOneHostForgetsTheMomentumOnAll) {
  Run({6, 6});
  Run({3, 3});
  hosts_.Do([](int rank, Learners& host) {
    if (rank == 1) host.synchroniser().Restart(host.set());
  });
  for (AveragingModel& model : models_) model.Restart({3, 4, 5});
  Run({9, 9});
  ExpectTheModels();
}

TEST_P(LaggingHostsTest, AHostWithoutDataAddsNoCorrection) {
  Run({6, 6});
  hosts_.Do([](int rank, Learners& host) {
    const auto nothing = [](int, int64_t, int64_t) { return End::kNoData; };
    if (rank == 0) {
      host.Run(4 * kLearners);
      host.Run(kLearners, SchedulingPolicy::kRoundRobin, nothing);
    } else {
      host.Run(kLearners, SchedulingPolicy::kRoundRobin, nothing);
      Result result = host.rounds()->Await();
      if (result == Result::kCounts) host.set().count()->fetch_add(1);
      while (result == Result::kCounts) {
        result = host.synchroniser().JoinWithoutTask(host.set(), Kind::kNoData);
      }
    }
    EXPECT_EQ(host.rounds()->Await(), Result::kNone);
    EXPECT_EQ(host.set().iterations(), 6);
    host.rounds()->AcknowledgeFailure();
  });
  for (int64_t i = 0; i < 4; ++i) {
    for (int m = 0; m < Learners::kMembers; ++m) {
      AveragingModel::Updates updates(kLearners * kHosts);
      for (int j = 0; j < kLearners; ++j) {
        updates[j] = Learners::StepOf(i * kLearners + j, m);
      }
      models_[m].Iterate(updates);
    }
  }
  ExpectTheModels();
  hosts_.Do([](int, Learners& host) { host.synchroniser().Restart(host.set()); });
  for (AveragingModel& model : models_) model.Restart();
  Run({6, 6});
  ExpectTheModels();
}

TEST_P(LaggingHostsTest, AnIterationThatFailsOnOneHostLeavesNoTrace) {
  Run({9, 9});
  hosts_.Do([](int rank, Learners& host) {
    host.Run(kLearners, SchedulingPolicy::kRoundRobin,
             [&](int j, int64_t task, int64_t) {
               return rank == 1 && j == 1 ? End::kFailed : host.Train(j, task);
             });
    if (rank == 0) {
      EXPECT_EQ(host.Run(kLearners), 0) << "the next run has no effect";
    }
    EXPECT_EQ(host.rounds()->Await(), Result::kDiscarded);
    host.synchroniser().Restart(host.set());
    host.rounds()->AcknowledgeFailure();
  });
  for (AveragingModel& model : models_) model.Restart();
  ExpectTheModels();
  Run({6, 6});
  ExpectTheModels();
}

INSTANTIATE_TEST_SUITE_P(All, LaggingHostsTest,
                         testing::Combine(testing::Values(Update::kByTheSynchroniser,
                                                          Update::kByItself),
                                          testing::Values(1, 2)));

}  // namespace
}  // namespace tensorbow
