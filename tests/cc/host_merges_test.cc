// Merges over several hosts, which are threads here: the same bits on all of them, the
// formula of all their learners, and the order of waiting.
#include "cc/synchroniser/algorithms/host_merges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cc/synchroniser/algorithms/adaptive.h"
#include "tests/cc/fake_hosts.h"

namespace tensorbow {
namespace {

using Result = HostRounds::Result;
using Kind = HostRounds::Kind;
using Outcome = HostMerges::Outcome;
using Values = std::vector<double>;

// A variable of one slice and one of three.
const std::vector<int64_t> kVariables = {5, 40'000};
constexpr double kMomentum = 0.5;

// A host: its replicas, in float, and its synchronisation.
class Host {
 public:
  Host(Hosts* hosts, const AdaptiveOptions& options, const std::vector<int>& learners,
       bool by_speed)
      : num_learners_(learners[hosts->rank()]),
        central_(CentralModel::Keeps::kMerged),
        adaptive_(options, num_learners_, &central_, hosts),
        rounds_(hosts),
        merges_(&rounds_, &adaptive_.batches()),
        set_(num_learners_, {0, 1}),
        random_(hosts->rank()) {
    adaptive_.batches().SetHosts(learners, hosts->rank(), by_speed);
    for (size_t m = 0; m < kVariables.size(); ++m) {
      const std::vector<float> start(kVariables[m], 1.0f);
      central_.Add(ElementType::kFloat32, kVariables[m]);
      central_.Assign(static_cast<int>(m), start.data());
      replicas_.emplace_back(num_learners_, start);
      for (int j = 0; j < num_learners_; ++j) {
        set_.set_weights(j, static_cast<int>(m), replicas_[m][j].data());
      }
    }
  }

  MegaBatches& batches() { return adaptive_.batches(); }
  Adaptive& adaptive() { return adaptive_; }
  HostRounds& rounds() { return rounds_; }
  TrainedSet& set() { return set_; }
  const std::vector<float>& replica(int m, int j) const { return replicas_[m][j]; }
  std::vector<float> Z() {
    std::vector<float> all;
    for (size_t m = 0; m < kVariables.size(); ++m) {
      const CentralModel::Variable& v = central_.variable(static_cast<int>(m));
      all.insert(all.end(), v.z<float>(), v.z<float>() + v.size());
    }
    return all;
  }
  // One element of all replicas, before each merge.
  const std::vector<Values>& before() const { return before_; }
  const std::vector<double>& after() const { return after_; }

  // Updates a learner drawn at random, from as many rows as its batch has.
  void Train(int64_t most_rows) {
    const int j = static_cast<int>(random_() % num_learners_);
    const int64_t left = std::min(batches().rows_left(), most_rows);
    const int64_t rows = std::min(batches().size(j), left);
    for (auto& variable : replicas_) {
      for (float& w : variable[j])
        w += static_cast<float>(random_() % 100) / 1000 - 0.05f;
    }
    batches().RecordUpdate(j, rows);
    rows_ += rows;
  }
  int64_t rows() const { return rows_; }

  Outcome Join(Kind kind, bool wants_merge = false) {
    HostMerges::Visit visit{kind, /*program=*/7};
    visit.wants_merge = wants_merge;
    visit.small = adaptive_.AreSmall(set_);
    visit.rows = rows_ - reported_;
    reported_ = rows_;
    const Outcome outcome = merges_.Join(visit);
    if (outcome.result == Result::kBroken) return outcome;
    rows_of_others_ += outcome.rows_of_others;
    if (outcome.result == Result::kDiscarded) {
      adaptive_.Abandon(set_);
      rounds_.AcknowledgeFailure();
    } else if (outcome.merges) {
      Values values;
      for (int j = 0; j < num_learners_; ++j)
        values.push_back(replicas_[1][j][kElement]);
      before_.push_back(values);
      EXPECT_TRUE(adaptive_.Merge(set_, outcome.small));
      after_.push_back(central_.variable(1).z<float>()[kElement]);
    }
    return outcome;
  }
  int64_t rows_of_others() const { return rows_of_others_; }

  // Trains on `rows` rows and merges whenever the share is complete.
  void TrainOn(int64_t rows) {
    const int64_t end = rows_ + rows;
    while (rows_ < end) {
      Train(end - rows_);
      if (batches().complete()) {
        EXPECT_EQ(Join(Kind::kTrained).result, Result::kCounts);
      }
    }
  }
  void Rest(bool wants_merge) {
    while (Join(Kind::kNoData, wants_merge).result == Result::kCounts) {
    }
  }

 private:
  static constexpr int64_t kElement = 33'333;

  const int num_learners_;
  CentralModel central_;
  Adaptive adaptive_;
  HostRounds rounds_;
  HostMerges merges_;
  std::vector<std::vector<std::vector<float>>> replicas_;  // [variable][learner]
  TrainedSet set_;
  std::mt19937 random_;
  int64_t rows_ = 0, reported_ = 0, rows_of_others_ = 0;
  std::vector<Values> before_;
  std::vector<double> after_;
};

class HostMergesTest : public testing::Test {
 protected:
  void Make(const std::vector<int>& learners, bool by_speed = false,
            int64_t mega_batch = 60, double perturbation = 0.1) {
    AdaptiveOptions options;
    options.b_max = 8;
    options.b_min = 2;
    options.mega_batch = mega_batch;
    options.momentum = kMomentum;
    options.perturbation = perturbation;
    const int count = static_cast<int>(learners.size());
    hosts_.clear();  // destroyed before the objects that they use
    cluster_ = std::make_unique<FakeCluster>(count);
    for (int rank = 0; rank < count; ++rank) {
      hosts_.push_back(
          std::make_unique<Host>(cluster_->host(rank), options, learners, by_speed));
    }
    Do([](int, Host& host) { EXPECT_TRUE(host.rounds().Agree(0)); });
  }
  void Do(const std::function<void(int rank, Host& host)>& what) {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < hosts_.size(); ++rank) {
      threads.emplace_back([&, rank] { what(static_cast<int>(rank), *hosts_[rank]); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  Host& host(int rank) { return *hosts_[rank]; }

  // Checks that z has the same bits on all hosts, and that every replica is z.
  void ExpectOneModel() {
    for (const auto& host : hosts_) {
      EXPECT_EQ(host->Z(), hosts_[0]->Z());
      EXPECT_EQ(host->batches().records().size(), host->before().size());
    }
  }
  // Checks that every merge is Σ p w + momentum (z − z_prev) of the learners of all
  // hosts.
  void ExpectTheFormula() {
    double z = 1, z_before = 1;
    for (size_t k = 0; k < host(0).before().size(); ++k) {
      const Values& p = host(0).batches().records()[k].weights;
      double sum = 0;
      size_t j = 0;
      for (const auto& host : hosts_) {
        for (double w : host->before()[k]) sum += p[j++] * w;
      }
      ASSERT_EQ(j, p.size());
      const double next = sum + kMomentum * (z - z_before);
      EXPECT_NEAR(host(0).after()[k], next, 1e-5) << k;
      z_before = z;
      z = host(0).after()[k];
    }
  }

  std::unique_ptr<FakeCluster> cluster_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

TEST_F(HostMergesTest, AllHostsMergeToTheSameBits) {
  for (const bool by_speed : {false, true}) {
    Make({2, 1, 3}, by_speed);
    Do([](int rank, Host& host) {
      for (int k = 0; k < 10; ++k) {
        host.batches().RecordTraining(1000 * (1 + rank));
        host.TrainOn(20);
      }
      host.Rest(/*wants_merge=*/true);
    });
    ExpectOneModel();
    ExpectTheFormula();
    EXPECT_GE(host(0).before().size(), 9u);
  }
}

TEST_F(HostMergesTest, EveryRowIsMergedOnceWhateverHostsHave) {
  std::mt19937 random(3);
  for (int history = 0; history < 30; ++history) {
    std::vector<int> learners(2 + random() % 3);
    std::vector<int64_t> rows(learners.size());
    for (int& count : learners) count = 1 + static_cast<int>(random() % 3);
    for (int64_t& count : rows) count = random() % 300;
    const auto count = static_cast<int64_t>(learners.size());
    const int64_t mega_batch = count + static_cast<int64_t>(random() % 150);
    const bool by_speed = random() % 2 == 0;
    Make(learners, by_speed, mega_batch, /*perturbation=*/0);
    Do([&](int rank, Host& host) {
      host.batches().RecordTraining(rank + 1);
      host.TrainOn(rows[rank]);
      host.Rest(/*wants_merge=*/true);
    });
    ExpectOneModel();
    ExpectTheFormula();
    const int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0});
    int64_t merged = 0;
    for (const MegaBatches::Record& record : host(0).batches().records()) {
      merged += std::accumulate(record.rows.begin(), record.rows.end(), int64_t{0});
      EXPECT_NEAR(std::accumulate(record.weights.begin(), record.weights.end(), 0.), 1,
                  1e-12);
    }
    EXPECT_EQ(merged, all);
    for (const auto& host : hosts_) {
      EXPECT_EQ(host->rows() + host->rows_of_others(), all);
    }
  }
}

TEST_F(HostMergesTest, HostsWithDataShareOutTheWholeMegaBatch) {
  Make({1, 1, 2});
  EXPECT_EQ(host(0).batches().share_of(2), 30) << "by learners";
  Do([](int rank, Host& host) {
    host.TrainOn(rank == 2 ? 10 : 15);
    host.Rest(/*wants_merge=*/false);
  });
  for (const auto& host : hosts_) {
    ASSERT_EQ(host->batches().records().size(), 1u);
    const std::vector<int64_t>& rows = host->batches().records()[0].rows;
    EXPECT_EQ(rows[0], 15);
    EXPECT_EQ(rows[1], 15);
    EXPECT_EQ(rows[2] + rows[3], 10) << "what it had, when the others had all";
    EXPECT_EQ(host->batches().share_of(0), 30);
    EXPECT_EQ(host->batches().share_of(1), 30);
    EXPECT_EQ(host->batches().share_of(2), 30) << "as it was, if it comes back";
  }
  ExpectOneModel();
}

TEST_F(HostMergesTest, SharesAreAsTheSpeeds) {
  Make({1, 1}, /*by_speed=*/true);
  Do([](int rank, Host& host) {
    host.batches().RecordTraining(rank == 0 ? 1000 : 4000);
    host.TrainOn(30);
  });
  EXPECT_EQ(host(0).batches().share_of(0), 48);
  EXPECT_EQ(host(1).batches().share_of(1), 12);
  EXPECT_EQ(host(1).batches().rows_left(), 12);
}

TEST_F(HostMergesTest, AFailureTakesAllBackToTheLastMerge) {
  Make({2, 1});
  Do([](int rank, Host& host) { host.TrainOn(rank == 0 ? 40 : 20); });
  const std::vector<float> merged = host(0).Z();
  Do([](int rank, Host& host) {
    const int64_t share = host.batches().share_of(rank);
    if (rank == 1) {
      host.Train(4);
      EXPECT_EQ(host.Join(Kind::kFailed).result, Result::kDiscarded);
    } else {
      while (!host.batches().complete()) host.Train(share);
      EXPECT_EQ(host.Join(Kind::kTrained).result, Result::kDiscarded);
    }
    EXPECT_EQ(host.batches().num_updates(), 0);
    EXPECT_EQ(host.batches().rows_left(), share);
    EXPECT_EQ(host.replica(0, 0)[3], host.Z()[3]);
  });
  EXPECT_EQ(host(0).Z(), merged);
  Do([](int rank, Host& host) { host.TrainOn(host.batches().share_of(rank)); });
  ExpectOneModel();
  EXPECT_EQ(host(0).before().size(), 2u);
}

TEST_F(HostMergesTest, ARestartOnOneHostForgetsTheMomentumOnAll) {
  Make({1, 1});
  Do([](int, Host& host) { host.TrainOn(60); });
  const double z = host(0).after().back();
  Do([](int rank, Host& host) {
    if (rank == 1) host.adaptive().Abandon(host.set());
    host.TrainOn(30);
  });
  ExpectOneModel();
  const Values& p = host(0).batches().records().back().weights;
  const double sum = p[0] * host(0).before()[2][0] + p[1] * host(1).before()[2][0];
  EXPECT_NEAR(host(1).after()[2], sum, 1e-6);
  EXPECT_GT(std::abs(z - host(0).after()[0]), 1e-5) << "there would have been some";
}

TEST_F(HostMergesTest, HostsThatDoOtherThingsAreTold) {
  Make({1, 1});
  Do([](int rank, Host& host) {
    if (rank == 0) {
      EXPECT_FALSE(host.rounds().Agree(1));
    } else {
      EXPECT_EQ(host.Join(Kind::kTrained).result, Result::kBroken);
    }
    EXPECT_NE(host.rounds().why().find("All hosts have to run the same program"),
              std::string::npos);
  });
}

TEST_F(HostMergesTest, WhatIsLeftIsMergedAtRestIfAHostWantsThat) {
  Make({1, 1});
  Do([](int rank, Host& host) {
    host.TrainOn(rank == 0 ? 10 : 5);
    Outcome outcome = host.Join(rank == 0 ? Kind::kNoData : Kind::kLeft);
    EXPECT_EQ(outcome.result, Result::kNone);
    EXPECT_FALSE(outcome.merges);
    EXPECT_EQ(outcome.left, 1);
    EXPECT_FALSE(outcome.all_left);
    EXPECT_EQ(host.rows_of_others(), rank == 0 ? 5 : 10);
    outcome =
        host.Join(rank == 0 ? Kind::kNoData : Kind::kLeft, /*wants_merge=*/rank == 0);
    EXPECT_EQ(outcome.result, Result::kNone);
    EXPECT_TRUE(outcome.merges);
    EXPECT_EQ(host.batches().records().back().rows, (std::vector<int64_t>{10, 5}));
    outcome = host.Join(Kind::kLeft, /*wants_merge=*/true);
    EXPECT_TRUE(outcome.all_left);
    EXPECT_FALSE(outcome.merges) << "there is nothing";
  });
  ExpectOneModel();
  ExpectTheFormula();
}

}  // namespace
}  // namespace tensorbow
