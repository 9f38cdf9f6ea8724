// The coordinators of hosts, with hosts that are threads. The training counts: its
// model is the number of iterations that count on this host. Hosts that merge have the
// real mega-batches and merges, and replicas of two numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "cc/central_model/central_model.h"
#include "cc/coordination/host_coordinator.h"
#include "cc/synchroniser/algorithms/adaptive.h"
#include "cc/synchroniser/algorithms/host_merges.h"
#include "tests/cc/fake_hosts.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

using Result = HostRounds::Result;
using Kind = HostRounds::Kind;

constexpr char kModel[] = "w";
constexpr int64_t kProgram = 7;

HostValues ValuesOf(double value) {
  HostValues values;
  tf::Tensor& tensor = values[kModel] = tf::Tensor(tf::DT_DOUBLE, {});
  tensor.scalar<double>()() = value;
  return values;
}

class FakeTraining : public HostTraining {
 public:
  explicit FakeTraining(HostRounds* rounds) : rounds_(rounds) {}

  int num_learners() const override { return 1; }
  HostRounds::Counts counts() const override { return own; }
  std::string DescribeOptions() override { return options; }
  std::string DescribeVariables() override { return kModel; }
  int64_t num_variables() override { return 1; }
  bool averages_gradients() override { return false; }
  void Warn(const std::string& text) override { warnings.push_back(text); }
  void RequestRestart() override { ++restarts; }
  absl::StatusOr<HostValues> Model(bool everything) override { return ValuesOf(model); }
  absl::Status SetModel(const HostValues& values, bool everything) override {
    model = values.at(kModel).scalar<double>()();
    return absl::OkStatus();
  }
  absl::StatusOr<HostValues> Values(const std::vector<int>&) override {
    return ValuesOf(model);
  }
  absl::Status SetValues(const std::vector<int>&, const HostValues& values) override {
    return SetModel(values, /*everything=*/false);
  }
  Result JoinWithoutTask(const TrainedSet& set, Kind kind) override {
    const Result before = rounds_->Await();
    if (before != Result::kCounts) return before;
    Send(kind, set.program, /*rows=*/0);
    const Result result = rounds_->Await();
    if (result == Result::kCounts) set.count()->fetch_add(1);
    return result;
  }
  void SetHosts(const std::vector<int>&) override {}
  absl::StatusOr<TrainedSet> LocateModel() override { return TrainedSet(1, {0}); }
  int64_t ModelFingerprint() override { return 1; }
  Adaptive* adaptive() override { return nullptr; }
  HostMerges* host_merges() override { return nullptr; }

  // Makes an update and reports it; it is undone unless it counts.
  void Send(Kind kind, int64_t program, int64_t rows) {
    model += 1;
    rounds_->Send({kind, program, rows > 0 ? 1 : 0, rows}, [this] { model -= 1; });
  }

  double model = 0;
  HostRounds::Counts own;
  int restarts = 0;
  std::string options = "the same options";
  std::vector<std::string> warnings;

 private:
  HostRounds* const rounds_;
};

// A host of the cluster. Its run is the trainer's, in short.
class TestHost {
 public:
  explicit TestHost(Hosts* hosts)
      : rounds(hosts),
        training(&rounds),
        coordinator(NewHostCoordinator(&rounds, /*merges=*/false, &training)),
        set(1, {0}) {
    set.program = kProgram;
    coordinator->ExpectTraining();
  }

  absl::Status Run(Kind kind = Kind::kTrained) {
    for (bool again = true; again;) {
      HostRun run;
      run.set = &set;
      run.written = &written;
      run.has_data = kind != Kind::kNoData;
      run.failed = kind == Kind::kFailed;
      const absl::Status ready = coordinator->BeforeRun(run);
      if (!ready.ok()) return ready;
      ++runs;
      if (!coordinator->repeats_run()) Execute(kind, &run);
      const absl::StatusOr<bool> ended = coordinator->AfterRun(run);
      if (!ended.ok()) return ended.status();
      again = *ended;
    }
    return kind == Kind::kFailed ? absl::InternalError("its own") : absl::OkStatus();
  }
  HostRounds::Counts Counts() {
    HostRounds::Counts all = coordinator->counts();
    all.iterations += training.own.iterations;
    all.tasks += training.own.tasks;
    all.rows += training.own.rows;
    return all;
  }

  HostRounds rounds;
  FakeTraining training;
  std::unique_ptr<HostCoordinator> coordinator;
  TrainedSet set;
  std::vector<int> written = {0};
  int runs = 0;
  // Called before this host reports its part of an iteration.
  std::function<void()> before_report = [] {};

 private:
  void Execute(Kind kind, HostRun* run) {
    before_report();
    run->stopped_by_hosts = rounds.Await() != Result::kCounts;
    if (run->stopped_by_hosts) return;
    const bool trains = kind == Kind::kTrained;
    training.Send(kind, set.program, trains ? 4 : 0);
    if (!trains) return;
    ++training.own.iterations;
    ++training.own.tasks;
    training.own.rows += 4;
    set.count()->fetch_add(1);
  }
};

class Cluster {
 public:
  explicit Cluster(int size, bool elastic = false) : fake(size, elastic) {
    for (int rank = 0; rank < size; ++rank) {
      hosts.push_back(std::make_unique<TestHost>(fake.host(rank)));
    }
  }
  TestHost& operator[](int rank) { return *hosts[rank]; }
  // Calls `body` on a thread of each host.
  void OnAll(const std::function<void(int rank, TestHost& host)>& body) {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      threads.emplace_back([&, rank] { body(static_cast<int>(rank), *hosts[rank]); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  FakeCluster fake;
  std::vector<std::unique_ptr<TestHost>> hosts;
};

void ExpectCounts(TestHost& host, int64_t iterations, int64_t tasks) {
  const HostRounds::Counts counts = host.Counts();
  EXPECT_EQ(counts.iterations, iterations);
  EXPECT_EQ(counts.tasks, tasks);
  EXPECT_EQ(counts.rows, 4 * tasks);
  EXPECT_EQ(host.training.model, static_cast<double>(iterations));
}

// ----------------------------------------------------------------------- lockstep

TEST(OneHostTest, DoesNothing) {
  const auto one = NewHostCoordinator(nullptr, /*merges=*/false, nullptr);
  EXPECT_FALSE(one->elastic());
  EXPECT_FALSE(one->must_agree_on_values());
  EXPECT_FALSE(*one->AfterRun({}));
  EXPECT_FALSE(*one->Merge({})) << "it merges by itself";
  EXPECT_EQ(one->Gather(5)->at(0), 5);
  EXPECT_TRUE(absl::IsInternal(one->AgreeOnOutcome("save", absl::InternalError(""))));
  EXPECT_FALSE(one->TestAndSetLeaving());
}

TEST(LockstepHostsTest, HostsWithoutDataJoinUntilAllHaveNone) {
  Cluster cluster(3);
  cluster.OnAll([](int rank, TestHost& host) {
    for (int run = 0; run < 2 + 3 * rank; ++run) EXPECT_TRUE(host.Run().ok());
    EXPECT_TRUE(host.Run(Kind::kNoData).ok());
  });
  cluster.OnAll([](int, TestHost& host) { ExpectCounts(host, 8, 2 + 5 + 8); });
}

TEST(LockstepHostsTest, AFailedTaskDiscardsTheIterationOnAllHosts) {
  Cluster cluster(2);
  cluster.OnAll([](int rank, TestHost& host) {
    EXPECT_TRUE(host.Run().ok());
    if (rank == 0) {
      EXPECT_TRUE(absl::IsInternal(host.Run(Kind::kFailed))) << "the run's own error";
    } else {
      EXPECT_TRUE(host.Run().ok()) << "the outcome is not known yet";
      const absl::Status stopped = host.Run();
      EXPECT_TRUE(absl::IsAborted(stopped)) << stopped;
      EXPECT_NE(stopped.message().find("host 0 has failed"), std::string::npos)
          << stopped;
    }
    EXPECT_EQ(host.training.restarts, 1);
    EXPECT_TRUE(host.Run().ok());
    EXPECT_TRUE(host.Run(Kind::kNoData).ok());
  });
  cluster.OnAll([](int, TestHost& host) { ExpectCounts(host, 2, 4); });
}

TEST(LockstepHostsTest, DifferentRunsEndTheCluster) {
  Cluster cluster(2);
  cluster[1].set.program = kProgram + 1;
  cluster.OnAll([](int, TestHost& host) {
    EXPECT_TRUE(host.Run().ok());
    const absl::Status stopped = host.Run();
    EXPECT_TRUE(absl::IsUnavailable(stopped)) << stopped;
    EXPECT_NE(stopped.message().find("different learning runs"), std::string::npos);
  });
}

TEST(LockstepHostsTest, AllBeginWithTheFirstHostsValues) {
  Cluster cluster(3);
  cluster.OnAll([](int rank, TestHost& host) {
    EXPECT_TRUE(host.coordinator->must_agree_on_values());
    HostValues values = ValuesOf(10 + rank);
    EXPECT_TRUE(host.coordinator->AgreeOnValues(&values).ok());
    EXPECT_EQ(values.at(kModel).scalar<double>()(), 10);
  });
}

TEST(LockstepHostsTest, DifferentOptionsEndTheCluster) {
  Cluster cluster(2);
  cluster[1].training.options = "others";
  cluster.OnAll([](int, TestHost& host) {
    HostValues values = ValuesOf(0);
    const absl::Status agreed = host.coordinator->AgreeOnValues(&values);
    EXPECT_TRUE(absl::IsUnavailable(agreed)) << agreed;
    EXPECT_NE(agreed.message().find("the same options"), std::string::npos);
  });
}

TEST(LockstepHostsTest, NoHostSavesIfOneCannot) {
  Cluster cluster(2);
  cluster.OnAll([](int rank, TestHost& host) {
    EXPECT_TRUE(host.coordinator->Enter("save_state", "path").ok());
    const absl::Status saved = host.coordinator->AgreeOnOutcome(
        "save", rank == 1 ? absl::InternalError("disk full") : absl::OkStatus());
    EXPECT_EQ(saved.code(),
              rank == 1 ? absl::StatusCode::kInternal : absl::StatusCode::kAborted);
    EXPECT_EQ(host.coordinator->place(), rank);
    EXPECT_EQ(host.coordinator->Gather(5 + rank)->at(1), 6);
  });
}

TEST(LockstepHostsTest, DifferentPathsAreAnError) {
  Cluster cluster(2);
  cluster.OnAll([](int rank, TestHost& host) {
    EXPECT_FALSE(
        host.coordinator->Enter("save_state", rank == 0 ? "here" : "there").ok());
  });
}

TEST(LockstepHostsTest, HostsThatHaveLeftJoinUntilAllHave) {
  Cluster cluster(3);
  cluster.OnAll([](int rank, TestHost& host) {
    for (int run = 0; run < 1 + rank; ++run) EXPECT_TRUE(host.Run().ok());
    EXPECT_TRUE(host.coordinator->TestAndSetLeaving());
    host.coordinator->Leave();
    EXPECT_FALSE(host.coordinator->TestAndSetLeaving());
  });
  cluster.OnAll([](int, TestHost& host) {
    ExpectCounts(host, 3, 6);
    EXPECT_TRUE(host.training.warnings.empty());
  });
}

TEST(LockstepHostsTest, ALossAtTheEndIsReported) {
  Cluster cluster(2);
  cluster.OnAll([](int rank, TestHost& host) {
    EXPECT_EQ(host.Run(rank == 0 ? Kind::kFailed : Kind::kTrained).ok(), rank == 1);
    EXPECT_TRUE(host.coordinator->TestAndSetLeaving());
    host.coordinator->Leave();
    EXPECT_EQ(host.training.warnings.size(), rank == 1);
  });
  cluster.OnAll([](int, TestHost& host) { ExpectCounts(host, 0, 0); });
}

// ------------------------------------------------------------------------ elastic

TEST(ElasticHostsTest, ALostHostsIterationIsMadeAgainByTheOthers) {
  Cluster cluster(3, /*elastic=*/true);
  cluster[1].before_report = [&] {
    if (cluster[1].runs == 3) cluster.fake.Kill(1);
  };
  cluster.OnAll([](int rank, TestHost& host) {
    for (int run = 0; run < 5; ++run) {
      const absl::Status ended = host.Run();
      if (rank == 1 && run == 2) {
        EXPECT_FALSE(ended.ok());
        return;
      }
      EXPECT_TRUE(ended.ok()) << ended;
    }
  });
  for (int rank : {0, 2}) {
    TestHost& host = cluster[rank];
    EXPECT_EQ(host.runs, 6) << "one was made again";
    ExpectCounts(host, 5, 2 * 3 + 3 * 2);
    ASSERT_EQ(host.training.warnings.size(), 1);
    EXPECT_NE(host.training.warnings[0].find("host 1 does not answer"),
              std::string::npos);
  }
  EXPECT_EQ(cluster[2].coordinator->place(), 1) << "of those that are left";
}

TEST(ElasticHostsTest, AHostThatLostTheOutcomeTakesItOver) {
  Cluster cluster(3, /*elastic=*/true);
  // Host 0 does not hear of the second iteration, which host 2 knows to count.
  cluster[0].before_report = [&] {
    if (cluster[0].runs == 2) cluster.fake.LoseNextSum(0);
  };
  cluster[1].before_report = [&] {
    if (cluster[1].runs == 3) cluster.fake.Kill(1);
  };
  cluster.OnAll([](int rank, TestHost& host) {
    for (int run = 0; run < 4; ++run) {
      if (!host.Run().ok()) return;
    }
  });
  for (int rank : {0, 2}) {
    EXPECT_EQ(cluster[rank].training.model, 4);
    EXPECT_EQ(cluster[rank].Counts().iterations, 4);
    EXPECT_EQ(cluster[rank].Counts().tasks, 2 * 3 + 2 * 2);
  }
  EXPECT_EQ(cluster[0].runs, 4) << "the outcome was taken over";
}

TEST(ElasticHostsTest, AllHostsButOneMayBeLost) {
  Cluster cluster(3, /*elastic=*/true);
  for (int rank : {0, 1}) {
    cluster[rank].before_report = [&cluster, rank] {
      if (cluster[rank].runs == 2 + rank) cluster.fake.Kill(rank);
    };
  }
  cluster.OnAll([](int rank, TestHost& host) {
    for (int run = 0; run < 6 && host.Run().ok(); ++run) {
    }
  });
  EXPECT_EQ(cluster[2].training.model, 6);
  EXPECT_EQ(cluster[2].Counts().iterations, 6);
  EXPECT_EQ(cluster[2].training.warnings.size(), 2);
}

TEST(ElasticHostsTest, AHostThatHungIsLeftOut) {
  Cluster cluster(2, /*elastic=*/true);
  cluster[1].before_report = [&] {
    if (cluster[1].runs == 2) cluster.fake.Kill(1);
  };
  cluster.OnAll([](int rank, TestHost& host) {
    for (int run = 0; run < 3; ++run) {
      const absl::Status ended = host.Run();
      if (rank == 0 || run == 0) {
        EXPECT_TRUE(ended.ok()) << ended;
      } else {
        EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
      }
    }
  });
}

TEST(ElasticHostsTest, ARestartedHostRejoinsWithTheOthersModelAndCounters) {
  Cluster cluster(2, /*elastic=*/true);
  cluster[1].before_report = [&] {
    if (cluster[1].runs == 2) cluster.fake.Kill(1);
  };
  std::atomic<bool> dead = false;
  std::unique_ptr<TestHost> restarted;
  std::thread second;
  cluster[0].before_report = [&] {
    if (cluster[0].runs != 5) return;
    while (!dead) std::this_thread::yield();
    cluster.fake.Restart(1);
    restarted = std::make_unique<TestHost>(cluster.fake.host(1));
    second = std::thread([&] {
      EXPECT_FALSE(restarted->coordinator->must_agree_on_values());
      EXPECT_TRUE(absl::IsFailedPrecondition(
          restarted->coordinator->Enter("save_state", "path")));
      // Run until the other host has no data.
      EXPECT_TRUE(restarted->Run().ok());
      EXPECT_TRUE(restarted->Run(Kind::kNoData).ok());
    });
    while (!cluster.fake.host(0)->sees_rejoining()) std::this_thread::yield();
  };
  cluster.OnAll([&dead](int rank, TestHost& host) {
    for (int run = 0; run < 9; ++run) {
      if (host.Run().ok()) continue;
      dead = true;
      return;
    }
    EXPECT_TRUE(host.Run(Kind::kNoData).ok());
  });
  second.join();
  EXPECT_EQ(cluster[0].Counts().iterations, 9);
  EXPECT_EQ(restarted->Counts().iterations, 9);
  EXPECT_EQ(restarted->Counts().tasks, cluster[0].Counts().tasks);
  EXPECT_EQ(restarted->training.model, cluster[0].training.model);
  EXPECT_EQ(restarted->set.iterations(), cluster[0].set.iterations());
}

TEST(ElasticHostsTest, ALossBetweenIterationsEndsTraining) {
  Cluster cluster(3, /*elastic=*/true);
  cluster.OnAll([&](int rank, TestHost& host) {
    HostValues values = ValuesOf(0);
    if (rank == 2) {
      // It agrees and dies before values are exchanged.
      EXPECT_FALSE(host.coordinator->Enter("load_state", "path").ok() &&
                   (cluster.fake.Kill(2), host.coordinator->Gather(0).ok()));
      return;
    }
    EXPECT_TRUE(host.coordinator->Enter("load_state", "path").ok());
    const auto gathered = host.coordinator->Gather(rank);
    EXPECT_TRUE(absl::IsUnavailable(gathered.status())) << gathered.status();
    EXPECT_NE(gathered.status().message().find("from the last saved state"),
              std::string::npos);
  });
}

TEST(ElasticHostsTest, UnknownRowsAreRefusedWhereGradientsAreAveraged) {
  class Averaging : public FakeTraining {
   public:
    using FakeTraining::FakeTraining;
    bool averages_gradients() override { return true; }
  };
  FakeCluster fake(1, /*elastic=*/true);
  HostRounds rounds(fake.host(0));
  Averaging training(&rounds);
  const auto hosts = NewHostCoordinator(&rounds, /*merges=*/false, &training);
  TrainedSet set(1, {0});
  HostRun run;
  run.set = &set;
  run.knows_rows = false;
  EXPECT_TRUE(absl::IsFailedPrecondition(hosts->BeforeRun(run)));
  run.has_data = false;
  EXPECT_TRUE(hosts->BeforeRun(run).ok());
}

// ------------------------------------------------------------------------ merging

constexpr int64_t kMegaBatch = 30;

// A training of Adaptive SGD: its replicas are two numbers each.
class MergingTraining : public FakeTraining {
 public:
  MergingTraining(Hosts* hosts, HostRounds* rounds, int learners)
      : FakeTraining(rounds),
        hosts_(hosts),
        central_(CentralModel::Keeps::kMerged),
        adaptive_(Options(), learners, &central_, hosts),
        merges_(rounds, &adaptive_.batches()),
        replicas_(learners, std::vector<float>(2, 1.0f)),
        set_(learners, {0}) {
    central_.Add(ElementType::kFloat32, 2);
    central_.Assign(0, replicas_[0].data());
    for (int j = 0; j < learners; ++j) set_.set_weights(j, 0, replicas_[j].data());
    set_.program = kProgram;
  }

  int num_learners() const override { return static_cast<int>(replicas_.size()); }
  void SetHosts(const std::vector<int>& learners) override {
    batches().SetHosts(learners, hosts_->rank(), /*by_speed=*/false);
  }
  absl::StatusOr<TrainedSet> LocateModel() override {
    if (!located.ok()) return located;
    return set_;
  }
  int64_t ModelFingerprint() override { return fingerprint; }
  Adaptive* adaptive() override { return &adaptive_; }
  HostMerges* host_merges() override { return &merges_; }

  MegaBatches& batches() { return adaptive_.batches(); }
  TrainedSet* set() { return &set_; }
  std::vector<float> z() const {
    const float* const values = central_.variable(0).z<float>();
    return {values, values + 2};
  }
  const std::vector<float>& replica(int j) const { return replicas_[j]; }
  // Updates a learner from at most so many rows. Returns their number.
  int64_t Train(int64_t most) {
    const int j = next_++ % num_learners();
    const int64_t rows = std::min({most, batches().size(j), batches().rows_left()});
    for (float& w : replicas_[j]) w += 0.125f * static_cast<float>(1 + j);
    batches().RecordUpdate(j, rows);
    return rows;
  }

  absl::Status located;
  int64_t fingerprint = 1;

 private:
  static AdaptiveOptions Options() {
    AdaptiveOptions options;
    options.b_max = 4;
    options.b_min = 1;
    options.mega_batch = kMegaBatch;
    return options;
  }

  Hosts* const hosts_;
  CentralModel central_;
  Adaptive adaptive_;
  HostMerges merges_;
  std::vector<std::vector<float>> replicas_;
  TrainedSet set_;
  int next_ = 0;
};

class MergingHost {
 public:
  MergingHost(Hosts* hosts, int learners)
      : rounds(hosts),
        training(hosts, &rounds, learners),
        coordinator(NewHostCoordinator(&rounds, /*merges=*/true, &training)) {
    coordinator->ExpectTraining();
  }

  absl::Status Begin() {
    HostValues values = ValuesOf(0);
    return coordinator->AgreeOnValues(&values);
  }
  // Trains on so many rows. Returns the error that the user gets.
  absl::Status Run(int64_t rows, Kind kind = Kind::kTrained) {
    HostRun run;
    run.set = training.set();
    run.written = &written;
    run.has_data = kind != Kind::kNoData;
    const absl::Status ready = coordinator->BeforeRun(run);
    if (!ready.ok()) return ready;
    absl::Status outcome;
    while (outcome.ok() && run.pending_rows < rows) {
      run.pending_rows += training.Train(rows - run.pending_rows);
      ++run.pending_tasks;
      if (training.batches().complete()) outcome = coordinator->Merge(run).status();
    }
    if (kind == Kind::kFailed) outcome = absl::InternalError("its own");
    training.own.tasks += run.pending_tasks;
    training.own.rows += run.pending_rows;
    run.failed = !outcome.ok();
    const absl::StatusOr<bool> again = coordinator->AfterRun(run);
    if (!again.ok()) return again.status();
    EXPECT_FALSE(*again);
    return outcome;
  }
  void Leave() {
    EXPECT_TRUE(coordinator->TestAndSetLeaving());
    coordinator->Leave();
  }
  int64_t AllRows() { return training.own.rows + coordinator->counts().rows; }
  int64_t AllTasks() { return training.own.tasks + coordinator->counts().tasks; }
  int64_t merges() { return static_cast<int64_t>(training.batches().records().size()); }
  int64_t MergedRows() {
    int64_t sum = 0;
    for (const MegaBatches::Record& record : training.batches().records()) {
      sum += std::accumulate(record.rows.begin(), record.rows.end(), int64_t{0});
    }
    return sum;
  }

  HostRounds rounds;
  MergingTraining training;
  std::unique_ptr<HostCoordinator> coordinator;
  std::vector<int> written = {0};
};

// Two hosts, with one learner and with two.
class MergingHostsTest : public testing::Test {
 protected:
  void OnAll(const std::function<void(int rank, MergingHost& host)>& body) {
    std::thread other([&] { body(1, second_); });
    body(0, first_);
    other.join();
  }
  void ExpectOneModel() {
    EXPECT_EQ(first_.training.z(), second_.training.z());
    EXPECT_EQ(first_.merges(), second_.merges());
  }

  FakeCluster fake_{2};
  MergingHost first_{fake_.host(0), 1};
  MergingHost second_{fake_.host(1), 2};
};

TEST_F(MergingHostsTest, MergeEveryRowOnce) {
  OnAll([](int rank, MergingHost& host) {
    EXPECT_TRUE(host.Begin().ok());
    EXPECT_TRUE(host.Run(rank == 0 ? 25 : 70).ok());
    EXPECT_TRUE(host.Run(rank == 0 ? 16 : 3).ok());
    EXPECT_TRUE(host.Run(0, Kind::kNoData).ok()) << "stays until the other has none";
    EXPECT_EQ(host.MergedRows(), 25 + 70 + 16 + 3);
    EXPECT_EQ(host.AllRows(), host.MergedRows());
    EXPECT_EQ(host.coordinator->counts().iterations, 0);
    EXPECT_EQ(host.training.replica(0), host.training.z());
  });
  ExpectOneModel();
  EXPECT_EQ(first_.AllTasks(), second_.AllTasks());
  EXPECT_GE(first_.merges(), 4);
}

TEST_F(MergingHostsTest, AHostThatSavesFirstJoinsTheMergesOfTheOthers) {
  OnAll([](int rank, MergingHost& host) {
    EXPECT_TRUE(host.Begin().ok());
    EXPECT_TRUE(host.Run(rank == 0 ? 5 : 65).ok());
    EXPECT_TRUE(host.coordinator->Enter("save_state", "path").ok());
    EXPECT_LT(host.MergedRows(), 70) << "the rest is saved as it is";
    EXPECT_EQ(host.coordinator->Gather(rank)->at(1), 1);
    const absl::StatusOr<bool> flushed = host.coordinator->FlushMegaBatch();
    EXPECT_TRUE(flushed.ok() && *flushed);
    EXPECT_EQ(host.MergedRows(), 70);
  });
  ExpectOneModel();
}

TEST_F(MergingHostsTest, AHostThatHasLeftIsReportedToOneThatSaves) {
  OnAll([](int rank, MergingHost& host) {
    EXPECT_TRUE(host.Begin().ok());
    EXPECT_TRUE(host.Run(rank == 0 ? 65 : 5).ok());
    if (rank == 0) {
      const absl::Status saved = host.coordinator->Enter("save_state", "path");
      EXPECT_TRUE(absl::IsFailedPrecondition(saved)) << saved;
      EXPECT_NE(saved.message().find("Host 1 has closed its session"),
                std::string::npos);
    }
    host.Leave();
  });
  ExpectOneModel();
  EXPECT_GE(first_.merges(), 2) << "the host that has left takes part";
}

TEST_F(MergingHostsTest, AFailureDiscardsWhatIsNotMergedOnAllHosts) {
  OnAll([](int rank, MergingHost& host) {
    EXPECT_TRUE(host.Begin().ok());
    EXPECT_TRUE(host.Run(rank == 0 ? 10 : 20).ok());
    EXPECT_EQ(host.merges(), 1);
    const std::vector<float> merged = host.training.z();
    if (rank == 1) {
      EXPECT_TRUE(absl::IsInternal(host.Run(3, Kind::kFailed)))
          << "the run's own error";
    } else {
      const absl::Status stopped = host.Run(host.training.batches().rows_left());
      EXPECT_TRUE(absl::IsAborted(stopped)) << stopped;
      EXPECT_NE(stopped.message().find("host 1 has failed"), std::string::npos);
      EXPECT_NE(stopped.message().find("discards all that hosts have trained"),
                std::string::npos);
    }
    EXPECT_EQ(host.training.z(), merged);
    EXPECT_EQ(host.training.replica(0), merged);
    EXPECT_EQ(host.training.batches().num_updates(), 0);
    EXPECT_TRUE(host.Run(host.training.batches().rows_left()).ok());
    EXPECT_EQ(host.merges(), 2);
    EXPECT_NE(host.training.z(), merged);
  });
  ExpectOneModel();
}

TEST_F(MergingHostsTest, DifferentModelsEndTheCluster) {
  second_.training.fingerprint = 2;
  OnAll([](int, MergingHost& host) {
    EXPECT_TRUE(host.Begin().ok());
    const absl::Status stopped = host.Run(30);
    EXPECT_TRUE(absl::IsUnavailable(stopped)) << stopped;
    EXPECT_NE(stopped.message().find("different learning runs"), std::string::npos);
  });
}

TEST_F(MergingHostsTest, AHostWithoutAModelEndsTheWaitOfTheOthers) {
  second_.training.located = absl::NotFoundError("w has no value");
  OnAll([](int rank, MergingHost& host) {
    EXPECT_TRUE(host.Begin().ok());
    const absl::Status stopped = host.Run(30);
    EXPECT_TRUE(rank == 0 ? absl::IsUnavailable(stopped) : absl::IsNotFound(stopped));
    EXPECT_NE(stopped.message().find("w has no value"), std::string::npos) << stopped;
  });
}

TEST_F(MergingHostsTest, LoadedCountersAreNotReportedAgain) {
  OnAll([](int rank, MergingHost& host) {
    EXPECT_TRUE(host.coordinator->Enter("load_state", "path").ok());
    EXPECT_TRUE(host.coordinator->BeginLoad().ok());
    EXPECT_EQ(host.training.batches().num_hosts(), 2);
    host.training.own.rows = 100;
    host.training.own.tasks = 50;
    host.coordinator->CountersLoaded();
    EXPECT_TRUE(host.Run(rank == 0 ? 10 : 20).ok());
    EXPECT_EQ(host.AllRows(), 100 + 30);
  });
}

TEST_F(MergingHostsTest, HostsThatHaveNotMetLeaveAtOnce) {
  OnAll([](int, MergingHost& host) { host.Leave(); });
  EXPECT_EQ(first_.merges(), 0);
}

}  // namespace
}  // namespace tensorbow
