// Model averaging over several hosts: the same result as on one host with all learners,
// and one outcome for all. Hosts are threads here (fake_hosts.h).
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "cc/synchroniser/hosts/host_rounds.h"
#include "tests/cc/fake_hosts.h"
#include "tests/cc/hosts_of_learners.h"
#include "tests/cc/learners.h"

namespace tensorbow {
namespace {

using End = Learners::End;
using Result = HostRounds::Result;
using Kind = HostRounds::Kind;
using std::chrono::microseconds;

// Returns the number of a host's task on a host that has all learners. Tasks are handed
// out in turn, and each host has `learners` of them.
int64_t OfAll(int rank, int learners, int64_t task) {
  return task / learners * learners * kHosts + rank * learners + task % learners;
}

void ExpectNear(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1e-5) << "element " << i;
  }
}

class HostsTest
    : public testing::TestWithParam<std::tuple<int, Update, int64_t, Centre>> {};

TEST_P(HostsTest, AreOneHostWithAllLearners) {
  const auto [learners, update, period, centre] = GetParam();
  const AlgorithmCase algorithm = Averaging(learners * kHosts, period, centre);
  Learners alone(algorithm, learners * kHosts, update, microseconds(0),
                 /*skips=*/false);
  HostsOfLearners hosts(algorithm, learners, update);
  for (int run = 0; run < 3; ++run) {
    alone.Run(4 * learners * kHosts);
    hosts.Do([learners = learners](int rank, Learners& host) {
      const int64_t completed =
          host.Run(4 * learners, SchedulingPolicy::kRoundRobin,
                   [&](int j, int64_t task, int64_t) {
                     return host.Train(j, OfAll(rank, learners, task));
                   });
      EXPECT_EQ(completed, 4);
    });
  }
  hosts.Do([](int, Learners& host) { host.Collect(); });
  alone.Collect();
  ExpectNear(hosts[0].Central(), alone.Central());
  EXPECT_EQ(hosts[0].Central(), hosts[1].Central());
  for (int j = 0; j < learners * kHosts; ++j) {
    ExpectNear(hosts[j / learners].Replica(j % learners), alone.Replica(j));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, HostsTest,
    testing::Combine(testing::Values(1, 2, 3),
                     testing::Values(Update::kByTheSynchroniser, Update::kByItself),
                     testing::Values(1, 2),
                     testing::Values(Centre::kCurrent, Centre::kLagging)));

// Returns the result of averaging in which hosts merge after every H-th iteration: by
// learner of all hosts, the distance of a replica's element from its start, the same
// for all elements of a member.
std::vector<double> ShiftsOf(int member, int learners, int64_t period, int iterations) {
  const int all = learners * kHosts;
  std::vector<double> shift(all);
  for (int i = 0; i < iterations; ++i) {
    const bool of_all = i % period == 0;  // z after i iterations
    std::vector<double> sum(kHosts);
    for (int j = 0; j < all; ++j) sum[j / learners] += shift[j];
    for (int j = 0; j < all; ++j) {
      const int count = of_all ? all : learners;
      const double z = (of_all ? sum[0] + sum[1] : sum[j / learners]) / count;
      const int64_t task = int64_t{i} * all + j;
      shift[j] += Learners::StepOf(task, member) - (shift[j] - z) / count;
    }
  }
  return shift;
}

class RareMeetingsTest : public testing::TestWithParam<std::tuple<int, Update>> {};

TEST_P(RareMeetingsTest, AreOfAllHostsAfterEveryThirdIteration) {
  const auto [learners, update] = GetParam();
  constexpr int64_t kPeriod = 3;
  AlgorithmCase algorithm = Averaging(learners * kHosts);
  algorithm.sma.host_period = kPeriod;
  algorithm.sma.host_alpha = 1.0 / learners;
  algorithm.ema_decay = 0;
  HostsOfLearners hosts(algorithm, learners, update);
  for (int iterations = 2; iterations <= 8; iterations += 2) {
    hosts.Do([=, learners = learners](int rank, Learners& host) {
      host.Run(2 * learners, SchedulingPolicy::kRoundRobin,
               [&](int j, int64_t task, int64_t) {
                 const int64_t before = (iterations - 2) * learners;
                 return host.Train(j, OfAll(rank, learners, before + task));
               });
      host.Collect();
    });
    for (int j = 0; j < learners * kHosts; ++j) {
      std::vector<float> expected;
      for (int m = 0; m < Learners::kMembers; ++m) {
        const double shift = ShiftsOf(m, learners, kPeriod, iterations)[j];
        for (int64_t i = 0; i < Learners::kSizes[m]; ++i) {
          expected.push_back(static_cast<float>(Learners::Start(i) + shift));
        }
      }
      ExpectNear(hosts[j / learners].Replica(j % learners), expected);
    }
    const bool equal = hosts[0].Central() == hosts[1].Central();
    EXPECT_EQ(equal, iterations % kPeriod == 0) << "after " << iterations;
  }
}

INSTANTIATE_TEST_SUITE_P(All, RareMeetingsTest,
                         testing::Combine(testing::Values(1, 2),
                                          testing::Values(Update::kByTheSynchroniser,
                                                          Update::kByItself)));

TEST(HostRoundsTest, WhatReportsNothingIsUnknownToOtherHosts) {
  FakeCluster cluster(kHosts);
  HostRounds silent(cluster.host(0));  // the other host has no such rounds
  HostRounds first(cluster.host(0)), second(cluster.host(1));
  const auto report = [](HostRounds* rounds) {
    rounds->Send({Kind::kTrained, /*program=*/7, /*tasks=*/1, /*rows=*/2}, nullptr);
    EXPECT_EQ(rounds->Await(), Result::kCounts);
    EXPECT_TRUE(rounds->begun());
  };
  std::thread other([&] { report(&second); });
  report(&first);
  other.join();
  EXPECT_FALSE(silent.begun());
}

TEST(HostRoundsTest, ALostRoundIsTakenOverOrMadeAgain) {
  FakeCluster cluster(kHosts);
  HostRounds first(cluster.host(0)), second(cluster.host(1));
  const HostRounds::Report report{Kind::kTrained, /*program=*/7, /*tasks=*/1,
                                  /*rows=*/2};
  first.Send(report, nullptr);
  second.Send(report, nullptr);
  EXPECT_EQ(first.Await(), Result::kCounts);
  EXPECT_EQ(second.Await(), Result::kCounts);
  EXPECT_EQ(first.progress().decided, 1);

  cluster.host(0)->Fail("host 1 is lost");
  const auto lose = [&first, &report] {
    bool undone = false;
    first.Send(report, [&undone] { undone = true; });
    EXPECT_EQ(first.Await(), Result::kBroken);
    EXPECT_TRUE(undone);
    EXPECT_EQ(first.why(), "host 1 is lost");
  };
  lose();
  EXPECT_FALSE(first.Resume({1, Result::kCounts}))
      << "nobody knows of the second round";
  EXPECT_EQ(first.Await(), Result::kCounts);
  EXPECT_TRUE(first.clear());
  lose();
  EXPECT_TRUE(first.Resume({2, Result::kDiscarded}));
  EXPECT_EQ(first.Await(), Result::kDiscarded);
  first.AcknowledgeFailure();
  lose();
  EXPECT_TRUE(first.Resume({3, Result::kCounts}));
  EXPECT_EQ(first.Await(), Result::kCounts);
  EXPECT_EQ(first.progress().decided, 3);
}

// A host that can see another one wait.
class SeeingHosts : public Hosts {
 public:
  explicit SeeingHosts(Hosts* hosts) : hosts_(hosts) {}
  int size() const override { return hosts_->size(); }
  int rank() const override { return hosts_->rank(); }
  std::unique_ptr<HostSum> NewSum(Type type, int64_t n) override {
    return hosts_->NewSum(type, n);
  }
  void Fail(const std::string& why) override { hosts_->Fail(why); }
  std::string error() const override { return hosts_->error(); }
  bool sees_rejoining() const override { return sees; }

  bool sees = false;

 private:
  Hosts* const hosts_;
};

TEST(HostRoundsTest, AHostIsTakenBackWhenAllSeeItWait) {
  FakeCluster cluster(kHosts);
  SeeingHosts first_host(cluster.host(0)), second_host(cluster.host(1));
  HostRounds first(&first_host), second(&second_host);
  for (const auto& [one, other] :
       {std::pair(false, true), std::pair(true, true), std::pair(true, false)}) {
    first_host.sees = one;
    second_host.sees = other;
    first.Send({Kind::kTrained}, nullptr);
    second.Send({Kind::kNoData}, nullptr);
    EXPECT_EQ(first.Await(), Result::kCounts);
    EXPECT_EQ(second.Await(), Result::kCounts);
    EXPECT_EQ(first.admits(), one && other);
    EXPECT_EQ(second.admits(), one && other);
  }
}

TEST(HostRoundsTest, WhatHasNotArrivedDoesNotCount) {
  FakeCluster cluster(kHosts);
  HostRounds first(cluster.host(0)), second(cluster.host(1));
  const HostRounds::Report report{Kind::kTrained, /*program=*/7, /*tasks=*/1,
                                  /*rows=*/2};
  bool undone = false;
  first.Send(report, [&undone] { undone = true; }, [] { return false; });
  second.Send(report, nullptr, [] { return true; });
  EXPECT_EQ(second.Await(), Result::kCounts);
  EXPECT_EQ(first.Await(), Result::kBroken);
  EXPECT_TRUE(undone);
  EXPECT_EQ(first.progress().decided, 0);
  EXPECT_EQ(second.progress().decided, 1);
}

TEST(OneFateTest, AFailureOnOneHostDiscardsTheIterationOnAll) {
  HostsOfLearners hosts(Averaging(4), 2, Update::kByItself);
  std::vector<float> before[kHosts];
  hosts.Do([&](int rank, Learners& host) {
    host.Run(2);
    host.Collect();
    before[rank] = host.Central();
    host.Run(2, SchedulingPolicy::kRoundRobin, [&](int j, int64_t task, int64_t) {
      return rank == 1 && j == 1 ? End::kFailed : host.Train(j, task);
    });
    if (rank == 0) {
      EXPECT_EQ(host.Run(2), 0) << "the next run has no effect";
      EXPECT_TRUE(host.synchroniser().stopped_by_hosts());
    }
    EXPECT_EQ(host.rounds()->Await(), Result::kDiscarded);
    EXPECT_EQ(host.rounds()->why(),
              "a learning task of host 1 has failed; its iteration is discarded on all "
              "hosts");
    EXPECT_EQ(host.rounds()->counts().iterations, rank == 0 ? -1 : 0);
    host.synchroniser().Restart(host.set());
    host.rounds()->AcknowledgeFailure();
    host.Collect();
    EXPECT_EQ(host.Central(), before[rank]);
    EXPECT_EQ(host.Replica(0), before[rank]);
    EXPECT_EQ(host.Run(2), 1);
    host.Collect();
  });
  EXPECT_EQ(hosts[0].Central(), hosts[1].Central());
  EXPECT_NE(hosts[0].Central(), before[0]);
}

TEST(OneFateTest, AHostWithoutDataTakesOverWhatTheOthersLearn) {
  HostsOfLearners hosts(Averaging(2), 1, Update::kByItself);
  hosts.Do([](int rank, Learners& host) {
    host.Run(1);
    const auto nothing = [](int, int64_t, int64_t) { return End::kNoData; };
    if (rank == 0) {
      host.Run(3);
      host.Run(1, SchedulingPolicy::kRoundRobin, nothing);
    } else {
      host.Run(1, SchedulingPolicy::kRoundRobin, nothing);
      Result result = host.rounds()->Await();
      int attended = 1;
      for (; result == Result::kCounts; ++attended) {
        result = host.synchroniser().JoinWithoutTask(host.set(), Kind::kNoData);
      }
      EXPECT_EQ(attended, 4);
      EXPECT_EQ(host.rounds()->counts().iterations, 3);
      EXPECT_EQ(host.rounds()->counts().tasks, 4);
    }
    EXPECT_EQ(host.rounds()->Await(), Result::kNone);
    host.rounds()->AcknowledgeFailure();
    host.Collect();
  });
  EXPECT_EQ(hosts[0].Central(), hosts[1].Central());
  // The mean over the other host's one learner, in the last iterations.
  ExpectNear(hosts[0].Central(), hosts[0].Replica(0));
}

TEST(OneFateTest, HostsThatDoDifferentThingsFail) {
  FakeCluster cluster(kHosts);
  HostRounds first(cluster.host(0)), second(cluster.host(1));
  const auto both = [&](const HostRounds::Report& a, const HostRounds::Report& b) {
    first.Send(a, nullptr);
    second.Send(b, nullptr);
    EXPECT_EQ(first.Await(), second.Await());
    EXPECT_EQ(first.why(), second.why());
    return first.Await();
  };
  EXPECT_EQ(both({Kind::kAgrees, 7}, {Kind::kAgrees, 7}), Result::kCounts);
  EXPECT_EQ(both({Kind::kTrained, 1, 2, 8}, {Kind::kLeft, 1}), Result::kCounts);
  EXPECT_EQ(second.counts().iterations, 1);
  EXPECT_EQ(second.counts().rows, 8);
  EXPECT_EQ(both({Kind::kLeft, 1}, {Kind::kNoData, 1}), Result::kNone);
  first.AcknowledgeFailure();
  second.AcknowledgeFailure();
  EXPECT_EQ(both({Kind::kTrained, 1}, {Kind::kTrained, 2}), Result::kBroken);
  EXPECT_EQ(first.why(),
            "host 1 and host 0 execute different learning runs at the same time. All "
            "hosts have to "
            "run the same program with the same options");
  first.AcknowledgeFailure();
  EXPECT_EQ(first.Await(), Result::kBroken) << "for good";
}

}  // namespace
}  // namespace tensorbow
