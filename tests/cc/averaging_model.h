// Model averaging as cc/synchroniser/algorithms/sma.h states it, in double precision
// and without optimisations, as the reference for SMA. Every learner's replica, and z,
// is an array of the same few values; an update adds one number to all of them.
#ifndef TENSORBOW_TESTS_CC_AVERAGING_MODEL_H_
#define TENSORBOW_TESTS_CC_AVERAGING_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "cc/synchroniser/algorithms/sma.h"

namespace tensorbow {

class AveragingModel {
 public:
  // The number that an iteration adds to each learner's replica; nullopt: it skips it.
  using Updates = std::vector<std::optional<double>>;

  AveragingModel(const SmaOptions& options, double ema_decay, int num_learners,
                 std::vector<double> start)
      : options_(options),
        ema_decay_(ema_decay),
        w_(num_learners, start),
        z_(start),
        z_prev_(start),
        average_(start),
        present_(num_learners) {
    std::iota(present_.begin(), present_.end(), 0);
  }

  void Iterate(const Updates& updates) {
    const bool lagging = options_.centre == SmaOptions::Centre::kLagging;
    const bool due = ++iterations_ % options_.period == 0;
    std::vector<int> taking_part;
    for (int j = 0; j < static_cast<int>(w_.size()); ++j) {
      if (updates[j].has_value()) taking_part.push_back(j);
    }
    for (int j : taking_part) {  // a learner that skipped the last one starts from z
      if (!std::binary_search(present_.begin(), present_.end(), j)) w_[j] = z_;
    }
    present_ = taking_part;
    for (size_t i = 0; i < z_.size(); ++i) {
      double sum = 0;  // of the corrections
      for (int j : present_) {
        const double c = due ? options_.alpha * (w_[j][i] - z_[i]) : 0;
        w_[j][i] += *updates[j] - c;
        sum += c;
      }
      if (!lagging) {
        z_[i] = MeanAt(i);
      } else if (due) {
        const double next = z_[i] + sum + options_.momentum * (z_[i] - z_prev_[i]);
        z_prev_[i] = z_[i];
        z_[i] = next;
      }
    }
    if (lagging && !due) return;  // z has not changed
    const double t = static_cast<double>(moves_++);
    const double d = std::min(ema_decay_, (1 + t) / (10 + t));
    for (size_t i = 0; i < z_.size(); ++i) {
      average_[i] = d * average_[i] + (1 - d) * z_[i];
    }
  }

  void Restart() {
    std::fill(w_.begin(), w_.end(), z_);
    z_prev_ = z_;
    present_.resize(w_.size());
    std::iota(present_.begin(), present_.end(), 0);
  }

  // Restarts some learners; the momentum is forgotten anyway.
  void Restart(const std::vector<int>& learners) {
    for (int j : learners) {
      w_[j] = z_;
      if (!std::binary_search(present_.begin(), present_.end(), j)) {
        present_.insert(std::lower_bound(present_.begin(), present_.end(), j), j);
      }
    }
    z_prev_ = z_;
  }

  const std::vector<double>& w(int learner) const { return w_[learner]; }
  const std::vector<double>& z() const { return z_; }
  const std::vector<double>& average() const { return average_; }
  const std::vector<int>& present() const { return present_; }

 private:
  double MeanAt(size_t i) const {
    double sum = 0;
    for (int j : present_) sum += w_[j][i];
    return sum / static_cast<double>(present_.size());
  }

  const SmaOptions options_;
  const double ema_decay_;
  std::vector<std::vector<double>> w_;  // by learner
  std::vector<double> z_, z_prev_, average_;
  std::vector<int> present_;  // in the last iteration
  int64_t iterations_ = 0;
  int64_t moves_ = 0;  // of the average
};

}  // namespace tensorbow

#endif  // TENSORBOW_TESTS_CC_AVERAGING_MODEL_H_
