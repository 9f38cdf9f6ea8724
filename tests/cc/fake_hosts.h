// The hosts of a cluster as threads of one process.
#ifndef TENSORBOW_TESTS_CC_FAKE_HOSTS_H_
#define TENSORBOW_TESTS_CC_FAKE_HOSTS_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cc/synchroniser/hosts/hosts.h"

namespace tensorbow {

class FakeCluster {
 public:
  explicit FakeCluster(int size) {
    for (int rank = 0; rank < size; ++rank) {
      hosts_.push_back(std::make_unique<Host>(this, rank));
    }
  }
  Hosts* host(int rank) { return hosts_[rank].get(); }

 private:
  // One sum, computed for the `turn`-th time.
  using Key = std::pair<int, int64_t>;
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
      return std::make_unique<Sum>(cluster_, rank_, next_key_++, type, n);
    }
    void Fail(const std::string& why) override { cluster_->Fail(why); }
    std::string error() const override {
      std::lock_guard<std::mutex> lock(cluster_->mu_);
      return cluster_->error_;
    }

   private:
    FakeCluster* const cluster_;
    const int rank_;
    int next_key_ = 0;
  };

  class Sum : public HostSum {
   public:
    Sum(FakeCluster* cluster, int rank, int key, Hosts::Type type, int64_t n)
        : cluster_(cluster), rank_(rank), key_(key, 0), type_(type), n_(n) {
      values_.resize(n * (type == Hosts::Type::kFloat ? 4 : 8));
    }
    ~Sum() override { Await(); }
    void* data() override { return values_.data(); }
    void Start() override {
      std::lock_guard<std::mutex> lock(cluster_->mu_);
      under_way_ = true;
      Turn& turn = cluster_->turns_[key_];
      turn.brought.resize(cluster_->hosts_.size());
      turn.brought[rank_] = values_;
      ++turn.started;
      cluster_->changed_.notify_all();
    }
    std::string Await() override {
      std::unique_lock<std::mutex> lock(cluster_->mu_);
      if (!under_way_) return cluster_->error_;
      under_way_ = false;
      Turn& turn = cluster_->turns_[key_];
      const int all = static_cast<int>(cluster_->hosts_.size());
      cluster_->changed_.wait(
          lock, [&] { return turn.started == all || !cluster_->error_.empty(); });
      if (turn.started < all) {
        --turn.started;  // it may be computed again
        return cluster_->error_;
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
      if (++turn.taken == all) cluster_->turns_.erase(key_);
      ++key_.second;
      return "";
    }

   private:
    template <typename T>
    void Add(const Turn& turn) {
      T* const sum = as<T>();
      for (int64_t i = 0; i < n_; ++i) {
        sum[i] = 0;
        for (const auto& brought : turn.brought) {
          sum[i] += reinterpret_cast<const T*>(brought.data())[i];
        }
      }
    }

    FakeCluster* const cluster_;
    const int rank_;
    Key key_;
    const Hosts::Type type_;
    const int64_t n_;
    std::vector<char> values_;
    bool under_way_ = false;
  };

  void Fail(const std::string& why) {
    std::lock_guard<std::mutex> lock(mu_);
    if (error_.empty()) error_ = why;
    changed_.notify_all();
  }

  std::vector<std::unique_ptr<Host>> hosts_;
  std::mutex mu_;
  std::condition_variable changed_;
  std::map<Key, Turn> turns_;
  std::string error_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_TESTS_CC_FAKE_HOSTS_H_
