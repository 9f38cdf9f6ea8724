// The hosts of a cluster as threads of one process.
#ifndef TENSORBOW_TESTS_CC_FAKE_HOSTS_H_
#define TENSORBOW_TESTS_CC_FAKE_HOSTS_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cc/synchroniser/hosts/hosts.h"

namespace tensorbow {

class FakeCluster {
 public:
  explicit FakeCluster(int size, bool elastic = false) : elastic_(elastic) {
    for (int rank = 0; rank < size; ++rank) {
      hosts_.push_back(std::make_unique<Host>(this, rank));
      members_.push_back(rank);
    }
  }
  Hosts* host(int rank) { return hosts_[rank].get(); }

  // --- Of elastic hosts.

  // Lets a host die or hang: its calls fail from now on, and the others regroup.
  void Kill(int rank) {
    std::lock_guard<std::mutex> lock(mu_);
    hosts_[rank]->lives = false;
    error_ = "host " + std::to_string(rank) + " does not answer";
    changed_.notify_all();
  }
  // Starts a host again that has been killed. Its first Regroup() rejoins.
  void Restart(int rank) {
    std::lock_guard<std::mutex> lock(mu_);
    hosts_[rank]->rejoins_ = true;
    hosts_[rank]->lives = true;
  }
  // Loses the result of the next sum that this host awaits.
  void LoseNextSum(int rank) {
    std::lock_guard<std::mutex> lock(mu_);
    hosts_[rank]->loses_sum = true;
  }

 private:
  // One sum: its number at the host, the number of its start, and of the regrouping.
  using Key = std::tuple<int, int64_t, int>;
  struct Turn {
    std::vector<std::vector<char>> brought;  // by host
    int started = 0;
    int taken = 0;
  };

  class Host : public Hosts {
   public:
    Host(FakeCluster* cluster, int rank) : cluster_(cluster), rank_(rank) {}
    int size() const override { return static_cast<int>(cluster_->hosts_.size()); }
    int rank() const override { return rank_; }
    std::unique_ptr<HostSum> NewSum(Type type, int64_t n) override {
      return std::make_unique<Sum>(cluster_, this, next_number_++, type, n);
    }
    void Fail(const std::string& why) override {
      if (lives) cluster_->Fail(why);
    }
    std::string error() const override {
      std::lock_guard<std::mutex> lock(cluster_->mu_);
      return cluster_->error_;
    }
    bool elastic() const override { return cluster_->elastic_; }
    std::vector<int> members() const override {
      std::lock_guard<std::mutex> lock(cluster_->mu_);
      return cluster_->members_;
    }
    std::string Regroup(const std::vector<int64_t>& brought, bool admits,
                        std::vector<std::vector<int64_t>>* all) override {
      return cluster_->Regroup(rank_, brought, admits, all);
    }
    bool rejoins() const override {
      std::lock_guard<std::mutex> lock(cluster_->mu_);
      return rejoins_;
    }
    bool sees_rejoining() const override {
      std::lock_guard<std::mutex> lock(cluster_->mu_);
      return std::any_of(cluster_->hosts_.begin(), cluster_->hosts_.end(),
                         [this](const auto& other) {
                           return other->rejoins_ && other->described_ == described_ &&
                                  cluster_->arrived_.count(other->rank_) > 0;
                         });
    }
    void Describe(int64_t program) override {
      std::lock_guard<std::mutex> lock(cluster_->mu_);
      described_ = program;
      cluster_->changed_.notify_all();
    }

    std::atomic<bool> lives = true;
    // Guarded by the cluster's mutex.
    bool loses_sum = false;
    bool rejoins_ = false;
    int64_t described_ = 0;
    int64_t starts = 0;  // since the hosts have regrouped

   private:
    FakeCluster* const cluster_;
    const int rank_;
    int next_number_ = 0;
  };

  class Sum : public HostSum {
   public:
    Sum(FakeCluster* cluster, Host* host, int number, Hosts::Type type, int64_t n)
        : cluster_(cluster), host_(host), number_(number), type_(type), n_(n) {
      values_.resize(n * (type == Hosts::Type::kFloat ? 4 : 8));
    }
    ~Sum() override { Await(); }
    void* data() override { return values_.data(); }
    void Start() override {
      std::lock_guard<std::mutex> lock(cluster_->mu_);
      if (!host_->lives) return;
      under_way_ = true;
      // Elastic hosts have made different numbers of sums when they regroup.
      key_ = cluster_->elastic_ ? Key(0, host_->starts++, cluster_->regroupings_)
                                : Key(number_, turn_, 0);
      Turn& turn = cluster_->turns_[key_];
      turn.brought.resize(cluster_->hosts_.size());
      turn.brought[host_->rank()] = values_;
      ++turn.started;
      cluster_->changed_.notify_all();
    }
    std::string Await() override {
      std::unique_lock<std::mutex> lock(cluster_->mu_);
      if (!host_->lives) return "this host was left out";
      if (!under_way_) return cluster_->error_;
      under_way_ = false;
      Turn& turn = cluster_->turns_[key_];
      const auto complete = [&] {
        return turn.started == static_cast<int>(cluster_->members_.size());
      };
      cluster_->changed_.wait(lock,
                              [&] { return complete() || !cluster_->error_.empty(); });
      if (!complete() || std::exchange(host_->loses_sum, false)) {
        if (!cluster_->elastic_) --turn.started;  // it may be made again
        return cluster_->error_.empty() ? "a sum was lost" : cluster_->error_;
      }
      switch (type_) {
        case Hosts::Type::kFloat:
          Add<float>(turn);
          break;
        case Hosts::Type::kDouble:
          Add<double>(turn);
          break;
        case Hosts::Type::kInt64:
          Add<int64_t>(turn);
          break;
      }
      if (++turn.taken == turn.started) cluster_->turns_.erase(key_);
      ++turn_;
      return "";
    }

   private:
    template <typename T>
    void Add(const Turn& turn) {
      T* const sum = as<T>();
      std::fill_n(sum, n_, T{0});
      for (const auto& brought : turn.brought) {
        if (brought.empty()) continue;
        for (int64_t i = 0; i < n_; ++i) {
          sum[i] += reinterpret_cast<const T*>(brought.data())[i];
        }
      }
    }

    FakeCluster* const cluster_;
    Host* const host_;
    const int number_;
    const Hosts::Type type_;
    const int64_t n_;
    std::vector<char> values_;
    int64_t turn_ = 0;
    Key key_;
    bool under_way_ = false;
  };

  void Fail(const std::string& why) {
    std::lock_guard<std::mutex> lock(mu_);
    if (error_.empty()) error_ = why;
    changed_.notify_all();
  }

  std::string Regroup(int rank, const std::vector<int64_t>& brought, bool admits,
                      std::vector<std::vector<int64_t>>* all) {
    std::unique_lock<std::mutex> lock(mu_);
    if (!hosts_[rank]->lives) return "this host was left out";
    const int before = regroupings_;
    arrived_[rank] = brought;
    admits_ = admits;
    changed_.notify_all();
    const bool rejoins = hosts_[rank]->rejoins_;
    changed_.wait(lock, [&] {
      if (rejoins ? !hosts_[rank]->rejoins_ : regroupings_ > before) return true;
      if (!rejoins && AllArrived()) FormGroup();
      return regroupings_ > before && !(rejoins && hosts_[rank]->rejoins_);
    });
    *all = last_arrived_;
    return "";
  }

  bool AllArrived() const {
    return std::all_of(members_.begin(), members_.end(), [this](int rank) {
      return !hosts_[rank]->lives || hosts_[rank]->rejoins_ || arrived_.count(rank) > 0;
    });
  }
  void FormGroup() {
    members_.clear();
    last_arrived_.assign(hosts_.size(), {});
    for (size_t rank = 0; rank < hosts_.size(); ++rank) {
      Host& host = *hosts_[rank];
      const auto arrived = arrived_.find(static_cast<int>(rank));
      if (arrived == arrived_.end() || !host.lives) continue;
      if (host.rejoins_ && !admits_) continue;
      host.rejoins_ = false;
      host.starts = 0;
      members_.push_back(static_cast<int>(rank));
      last_arrived_[rank] = arrived->second;
    }
    for (int rank : members_) arrived_.erase(rank);
    error_.clear();
    turns_.clear();
    ++regroupings_;
    changed_.notify_all();
  }

  const bool elastic_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::mutex mu_;
  std::condition_variable changed_;
  std::map<Key, Turn> turns_;
  std::string error_;
  std::vector<int> members_;
  // Messages of the hosts that regroup, and those of the last regrouping.
  std::map<int, std::vector<int64_t>> arrived_;
  std::vector<std::vector<int64_t>> last_arrived_;
  bool admits_ = false;
  int regroupings_ = 0;
};

}  // namespace tensorbow

#endif  // TENSORBOW_TESTS_CC_FAKE_HOSTS_H_
