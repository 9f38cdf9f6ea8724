// S-SGD over several hosts: sums of gradients, and one outcome for all. Hosts are
// threads here (fake_hosts.h), each with learners that are threads, too.
#include "cc/synchroniser/hosts/host_gradients.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cc/synchroniser/algorithms/ssgd.h"
#include "cc/synchroniser/synchroniser.h"
#include "tests/cc/fake_hosts.h"

namespace tensorbow {
namespace {

constexpr int kHosts = 2;
constexpr int kLearners = 2;

using Result = HostRounds::Result;
using Kind = HostRounds::Kind;

void OnAllHosts(const std::function<void(int rank)>& what) {
  std::vector<std::thread> hosts;
  for (int rank = 0; rank < kHosts; ++rank) hosts.emplace_back(what, rank);
  for (std::thread& host : hosts) host.join();
}

template <typename T>
class HostGradientsTest : public testing::Test {};
struct Types {
  template <typename T>
  static ElementType Of();
};
template <>
ElementType Types::Of<float>() {
  return ElementType::kFloat32;
}
template <>
ElementType Types::Of<double>() {
  return ElementType::kFloat64;
}
template <>
ElementType Types::Of<Half>() {
  return ElementType::kFloat16;
}
template <>
ElementType Types::Of<Bfloat16>() {
  return ElementType::kBfloat16;
}
using All = testing::Types<float, double, Half, Bfloat16>;
TYPED_TEST_SUITE(HostGradientsTest, All);

// Three gradients of one type and one of another between them, of which some share a
// chunk and one has several. All numbers are small integers over powers of two: sums
// are exact.
TYPED_TEST(HostGradientsTest, AreWeightedMeansOfAllLearners) {
  using T = TypeParam;
  const int64_t large = 2 * HostGradients::kChunkElements + 9;
  const std::vector<HostGradients::Gradient> gradients = {{Types::Of<T>(), 5},
                                                          {Types::Of<T>(), large},
                                                          {ElementType::kFloat64, 3},
                                                          {Types::Of<T>(), 1}};
  FakeCluster cluster(kHosts);
  OnAllHosts([&](int rank) {
    HostGradients sums(cluster.host(rank), gradients);
    sums.Open();
    for (int iteration = 0; iteration < 2; ++iteration) {
      for (int k = 0; k < sums.size(); ++k) {
        const int64_t n = gradients[k].size;
        std::vector<T> values(n);
        std::vector<double> doubles(n);
        for (int64_t i = 0; i < n; ++i) {
          doubles[i] = static_cast<double>((i + k + iteration) % 8);
          values[i] = static_cast<T>(static_cast<float>(doubles[i]));
        }
        const void* const own =
            k == 2 ? static_cast<const void*>(doubles.data()) : values.data();
        // Host 0 has one learner; host 1 has two, one with half of an equal share.
        std::vector<HostGradients::Values> learners = {{own, 1}};
        if (rank == 1) learners = {{own, 1.5}, {own, 0.5}};
        for (int part = 0; part < 3; ++part) sums.Add(k, learners, part, 3);
        sums.Send(k, rank == 1 ? 2 : 1);
      }
      ASSERT_TRUE(sums.Await());
      for (int k : {0, 1, 3}) {
        std::vector<T> mean(gradients[k].size);
        sums.Mean(k, mean.data());
        for (int64_t i = 0; i < gradients[k].size; ++i) {
          const auto expected = static_cast<float>((i + k + iteration) % 8);
          ASSERT_NEAR(static_cast<float>(mean[i]), expected, 1e-6 * expected) << k;
        }
      }
      double mean[3];
      sums.Mean(2, mean);
      EXPECT_DOUBLE_EQ(mean[1], (3 + iteration) % 8);
    }
  });
}

// Hosts that record the sizes of their sums of floats.
class CountingHosts : public Hosts {
 public:
  explicit CountingHosts(Hosts* hosts) : hosts_(hosts) {}
  int size() const override { return hosts_->size(); }
  int rank() const override { return hosts_->rank(); }
  std::unique_ptr<HostSum> NewSum(Type type, int64_t n) override {
    if (type == Type::kFloat) floats.push_back(n - 1);
    return hosts_->NewSum(type, n);
  }
  void Fail(const std::string& why) override { hosts_->Fail(why); }
  std::string error() const override { return hosts_->error(); }

  std::vector<int64_t> floats;  // elements of gradients, by sum

 private:
  Hosts* const hosts_;
};

// Returns gradients of 1, 2, … floats.
std::vector<HostGradients::Gradient> Floats(int number) {
  std::vector<HostGradients::Gradient> gradients;
  for (int k = 1; k <= number; ++k) gradients.push_back({ElementType::kFloat32, k});
  return gradients;
}

TEST(HostGradientsChunksTest, AreOfSoManyGradientsAndTheLastTravelAlone) {
  FakeCluster cluster(1);
  CountingHosts hosts(cluster.host(0));
  HostGradients(&hosts, Floats(7), {/*gradients=*/2}).Open();
  EXPECT_EQ(hosts.floats, (std::vector<int64_t>{1 + 2, 3 + 4, 5, 6, 7}));
  hosts.floats.clear();
  HostGradients(&hosts, Floats(7), {/*gradients=*/100}).Open();
  EXPECT_EQ(hosts.floats, (std::vector<int64_t>{1 + 2 + 3 + 4 + 5, 6, 7}));
  hosts.floats.clear();
  HostGradients(&hosts, Floats(7)).Open();
  EXPECT_EQ(hosts.floats, (std::vector<int64_t>{28}));
}

TEST(HostGradientsChunksTest, NoChunkExceedsTheLimit) {
  FakeCluster cluster(1);
  CountingHosts hosts(cluster.host(0));
  constexpr int64_t kMost = HostGradients::kChunkElements;
  const ElementType type = ElementType::kFloat32;
  HostGradients(&hosts, {{type, 5}, {type, 2 * kMost}, {type, 7}, {type, 1}, {type, 1}},
                {/*gradients=*/2})
      .Open();
  // The second one starts after the first. The third starts in the second one's last
  // piece, whose only gradient does not start there.
  EXPECT_EQ(hosts.floats, (std::vector<int64_t>{kMost, kMost, 5 + 7, 1, 1}));
}

TEST(HostGradientsChunksTest, SearchingHostsChangeTogetherAndSumsStayRight) {
  constexpr int kGradients = 30;
  FakeCluster cluster(kHosts);
  std::vector<std::vector<int>> chunks(kHosts);
  OnAllHosts([&](int rank) {
    HostGradients sums(cluster.host(rank), Floats(kGradients),
                       {/*gradients=*/0, /*searched=*/true});
    sums.Open();
    for (int iteration = 0; iteration < 250; ++iteration) {
      chunks[rank].push_back(sums.chunk());
      // Sometimes host 1 has no data.
      const bool attends = rank == 1 && iteration % 7 == 3;
      for (int k = 0; k < kGradients && !attends; ++k) {
        const std::vector<float> own(k + 1, static_cast<float>(iteration + k));
        sums.Add(k, {{own.data(), 1}}, 0, 1);
        sums.Send(k, 1);
      }
      if (attends) sums.SendRest();
      ASSERT_TRUE(sums.Await());
      for (int k = 0; k < kGradients; ++k) {
        std::vector<float> mean(k + 1);
        sums.Mean(k, mean.data());
        ASSERT_EQ(mean, std::vector<float>(k + 1, static_cast<float>(iteration + k)));
      }
    }
  });
  EXPECT_EQ(chunks[0], chunks[1]);
  // The first iteration starts an interval; then 1 to 10, 20 and 30 gradients are
  // tried.
  EXPECT_EQ(chunks[0][10], 1);
  EXPECT_EQ(chunks[0][11], 2);
  EXPECT_EQ(chunks[0][101], 20);
  EXPECT_EQ(chunks[0][120], 30);
  EXPECT_EQ(chunks[0][121], chunks[0].back());
}

TEST(HostGradientsRestTest, AHostThatHasNothingSendsZeros) {
  FakeCluster cluster(kHosts);
  OnAllHosts([&](int rank) {
    HostGradients sums(cluster.host(rank),
                       {{ElementType::kFloat32, 2}, {ElementType::kFloat32, 2}});
    sums.Open();
    const std::vector<float> own = {3, 5};
    for (int iteration = 0; iteration < 2; ++iteration) {
      for (int k = 0; k < 2 && rank == 0; ++k) {
        sums.Add(k, {{own.data(), 1}}, 0, 1);
        sums.Send(k, 1);
      }
      sums.SendRest();
      ASSERT_TRUE(sums.Await());
      std::vector<float> mean(2);
      sums.Mean(1, mean.data());
      EXPECT_EQ(mean, own);
    }
  });
}

// A host's learners, which send two gradients and then add their means to a weight.
class Host {
 public:
  enum class End { kTrained, kFailsBefore, kFailsBetween, kFailsAfter, kNoData };

  explicit Host(Hosts* hosts)
      : rounds_(hosts),
        synchroniser_(kLearners, &model_, std::chrono::microseconds(0),
                      std::make_unique<Ssgd>(&model_), nullptr, &rounds_),
        scheduler_(kLearners),
        set_(kLearners, {}) {
    set_.set_exchanges(3, 0);
    set_.program = 7;
    set_.host_gradients = std::make_shared<HostGradients>(
        hosts, std::vector<HostGradients::Gradient>{{ElementType::kFloat32, 3},
                                                    {ElementType::kFloat64, 1}});
  }

  // Executes one iteration, in which learner j's gradients are `value + j`.
  int64_t Run(float value, End end = End::kTrained) {
    scheduler_.Begin(kLearners, SchedulingPolicy::kRoundRobin);
    synchroniser_.BeginRun(&set_, &scheduler_);
    std::vector<std::thread> threads;
    for (int j = 0; j < kLearners; ++j) {
      threads.emplace_back([&, j] {
        if (!scheduler_.Next(j).has_value() || !synchroniser_.pace(j).BeforeTask())
          return;
        if (knows_rows) synchroniser_.pace(j).RecordRows(4);
        if (end == End::kNoData) {
          synchroniser_.pace(j).Skip();
        } else if (Task(j, value + static_cast<float>(j),
                        j == 1 ? end : End::kTrained)) {
          synchroniser_.pace(j).RecordRows(4);
          synchroniser_.pace(j).AfterTask();
        } else {
          synchroniser_.pace(j).Abort();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return synchroniser_.EndRun();
  }

  bool knows_rows = true;  // of a task before it is executed

  Synchroniser& synchroniser() { return synchroniser_; }
  HostRounds& rounds() { return rounds_; }
  TrainedSet& set() { return set_; }
  const std::vector<double>& weights() const { return weights_; }

 private:
  bool Task(int j, float value, End end) {
    const std::vector<float> first(3, value);
    const double second = value;
    if (end == End::kFailsBefore) return false;
    if (!SendGradient(synchroniser_.exchange(j), 0, first.data())) return false;
    if (end == End::kFailsBetween) return false;
    if (!SendGradient(synchroniser_.exchange(j), 1, &second)) return false;
    const auto all = synchroniser_.exchange(j).AllGather(2, &weights_[j]);
    if (all.empty()) return false;
    if (all.front() == &weights_[j]) synchroniser_.exchange(j).Vote(2);
    synchroniser_.exchange(j).Release(2);
    if (synchroniser_.pace(j).Aborted()) return false;
    std::vector<float> mean(3);
    set_.host_gradients->Mean(0, mean.data());
    double other = 0;
    set_.host_gradients->Mean(1, &other);
    EXPECT_EQ(mean[2], static_cast<float>(other));
    weights_[j] += other;
    return end != End::kFailsAfter;
  }

  HostRounds rounds_;
  CentralModel model_{CentralModel::Keeps::kAverageOnly};
  Synchroniser synchroniser_;
  TaskScheduler scheduler_;
  TrainedSet set_;
  std::vector<double> weights_ = std::vector<double>(kLearners, 0);
};

class TwoHosts {
 public:
  TwoHosts() {
    for (int rank = 0; rank < kHosts; ++rank) {
      hosts_.push_back(std::make_unique<Host>(cluster_.host(rank)));
    }
  }
  Host& operator[](int rank) { return *hosts_[rank]; }
  void Do(const std::function<void(int rank, Host& host)>& what) {
    OnAllHosts([&](int rank) { what(rank, *hosts_[rank]); });
  }

 private:
  FakeCluster cluster_{kHosts};
  std::vector<std::unique_ptr<Host>> hosts_;
};

class RowsTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(KnownBeforeOrAfter, RowsTest, testing::Bool());

TEST_P(RowsTest, HostsAverageAndCount) {
  TwoHosts hosts;
  hosts.Do([](int rank, Host& host) {
    host.knows_rows = GetParam() || rank == 0;
    // Gradients 1, 2 on one host and 11, 12 on the other.
    EXPECT_EQ(host.Run(1 + 10 * rank), 1);
    EXPECT_EQ(host.Run(1 + 10 * rank), 1);
    EXPECT_EQ(host.rounds().Await(), Result::kCounts);
    EXPECT_EQ(host.weights(), std::vector<double>(kLearners, 13));
    EXPECT_EQ(host.rounds().counts().tasks, 4) << "of the other host";
    EXPECT_EQ(host.rounds().counts().rows, 16);
    EXPECT_EQ(host.rounds().counts().iterations, 0);
  });
}

class FailingTest : public testing::TestWithParam<Host::End> {};

TEST_P(FailingTest, NobodyUpdatesAnything) {
  TwoHosts hosts;
  hosts.Do([](int rank, Host& host) {
    EXPECT_EQ(host.Run(1), 1);
    EXPECT_EQ(host.Run(2, rank == 1 ? GetParam() : Host::End::kTrained), 0);
    EXPECT_EQ(host.synchroniser().stopped_by_hosts(), rank == 0);
    EXPECT_EQ(host.rounds().Await(), Result::kDiscarded);
    EXPECT_EQ(host.rounds().why(),
              "a learning task of host 1 has failed; its iteration is discarded on all "
              "hosts");
    host.rounds().AcknowledgeFailure();
    EXPECT_EQ(host.weights(), std::vector<double>(kLearners, 1.5));
    EXPECT_EQ(host.Run(3), 1);
    EXPECT_EQ(host.rounds().Await(), Result::kCounts);
    EXPECT_EQ(host.weights(), std::vector<double>(kLearners, 5));
    EXPECT_EQ(host.rounds().counts().tasks, 4);
  });
}

INSTANTIATE_TEST_SUITE_P(All, FailingTest,
                         testing::Values(Host::End::kFailsBefore,
                                         Host::End::kFailsBetween));

// Then updates have been made, on this host perhaps in part.
TEST_P(RowsTest, AHostThatFailsAfterTheVoteIsAStraggler) {
  TwoHosts hosts;
  hosts.Do([](int rank, Host& host) {
    host.knows_rows = GetParam();
    EXPECT_EQ(host.Run(1), 1);
    EXPECT_EQ(host.Run(2, rank == 1 ? Host::End::kFailsAfter : Host::End::kTrained),
              rank == 0 ? 1 : 0);
    if (rank == 0) {
      EXPECT_EQ(host.Run(3), 0) << "is discarded";
    }
    EXPECT_EQ(host.rounds().Await(), Result::kDiscarded);
    const HostRounds::Stragglers stragglers = host.rounds().TakeStragglers();
    EXPECT_EQ(stragglers.hosts, std::vector<int>{1});
    EXPECT_EQ(stragglers.leader, 0);
    host.rounds().AcknowledgeFailure();
    EXPECT_EQ(host.rounds().counts().iterations, rank);
    EXPECT_EQ(host.rounds().counts().tasks, rank == 0 ? 4 : 4 + 2);
    EXPECT_EQ(host.Run(4), 1);
    EXPECT_EQ(host.rounds().Await(), Result::kCounts);
  });
}

TEST(GradientsFateTest, AHostWithoutDataIsAStraggler) {
  TwoHosts hosts;
  hosts.Do([](int rank, Host& host) {
    EXPECT_EQ(host.Run(1), 1);
    if (rank == 0) {
      EXPECT_EQ(host.Run(2), 1);
      EXPECT_EQ(host.Run(3), 1);
      EXPECT_EQ(host.weights(), std::vector<double>(kLearners, 1.5 + 2.5 + 3.5));
    }
    EXPECT_EQ(host.Run(9, Host::End::kNoData), 0);
    Result result = host.rounds().Await();
    int attended = 0;
    for (; result == Result::kCounts; ++attended) {
      result = host.synchroniser().JoinWithoutTask(host.set(), Kind::kNoData);
    }
    EXPECT_EQ(result, Result::kNone);
    EXPECT_EQ(attended, rank == 0 ? 1 : 3);
    const HostRounds::Stragglers stragglers = host.rounds().TakeStragglers();
    EXPECT_EQ(stragglers.hosts, std::vector<int>{1});
    EXPECT_EQ(stragglers.leader, 0);
    EXPECT_TRUE(host.rounds().TakeStragglers().hosts.empty());
    host.rounds().AcknowledgeFailure();
    EXPECT_EQ(host.Run(5), 1);
  });
}

TEST(GradientsFateTest, ARehearsalUpdatesWithTheHostsOwnGradientsAndTellsNobody) {
  TwoHosts hosts;
  hosts.Do([](int rank, Host& host) {
    EXPECT_EQ(host.Run(1), 1);
    EXPECT_EQ(host.weights(), std::vector<double>(kLearners, 1.5));
    const int64_t decided = host.rounds().progress().decided;
    if (rank == 1) {
      host.synchroniser().RunWithoutHosts(true);
      EXPECT_EQ(host.Run(5), 1);
      EXPECT_EQ(host.weights(), std::vector<double>(kLearners, 1.5 + 5.5));
      host.synchroniser().RunWithoutHosts(true);
      EXPECT_EQ(host.Run(5, Host::End::kFailsBetween), 0);
      EXPECT_EQ(host.rounds().Await(), Result::kCounts);
      EXPECT_EQ(host.rounds().progress().decided, decided);
      EXPECT_EQ(host.rounds().counts().tasks, 2) << "of the other host";
    }
    EXPECT_EQ(host.Run(rank), 1) << "with the other host";
    EXPECT_EQ(host.weights()[0], (rank == 0 ? 1.5 : 7) + 1);
  });
}

TEST(GradientsFateTest, HostsThatTrainDifferentThingsFail) {
  TwoHosts hosts;
  hosts.Do([](int rank, Host& host) {
    host.set().program = rank;
    EXPECT_EQ(host.Run(1), 0);
    EXPECT_EQ(host.rounds().Await(), Result::kBroken);
    EXPECT_EQ(host.weights(), std::vector<double>(kLearners, 0));
  });
}

}  // namespace
}  // namespace tensorbow
