#include "cc/tuner/layout_search.h"

#include <algorithm>
#include <cmath>

namespace tensorbow {
namespace {

const Trial* Find(const std::vector<Trial>& trials, const Layout& layout) {
  const auto found =
      std::find_if(trials.begin(), trials.end(),
                   [&](const Trial& trial) { return trial.layout == layout; });
  return found == trials.end() ? nullptr : &*found;
}

// Returns the trial of the highest median. REQUIRES: `trials` is not empty.
size_t Highest(const std::vector<Trial>& trials) {
  const auto highest = std::max_element(
      trials.begin(), trials.end(),
      [](const Trial& a, const Trial& b) { return a.Median() < b.Median(); });
  return highest - trials.begin();
}

// Returns the standard deviation of a window's throughput, as a share of it. For few
// normal values it is about the range over the root of their number (3 values: 0.98 of
// it, 12 values: 0.94); single ranges scatter, so all trials' are averaged.
double Noise(const std::vector<Trial>& trials) {
  double sum = 0;
  for (const Trial& trial : trials) {
    sum += trial.Range() / std::sqrt(trial.rates.size());
  }
  return sum / trials.size();
}

// Returns the difference between two trials' medians that chance may explain: two
// standard errors.
double Doubt(const Trial& a, const Trial& b, double noise) {
  return 2 * noise * std::sqrt(1.0 / a.rates.size() + 1.0 / b.rates.size());
}

class CoresSearch : public LayoutSearch {
 public:
  CoresSearch(int cores, double threshold) : cores_(cores), threshold_(threshold) {
    for (int m = 1; m <= cores; ++m) {
      if (cores % m == 0) divisors_.push_back(m);
    }
  }

  std::optional<Layout> Next(const std::vector<Trial>& trials,
                             int limit) const override {
    if (const auto next = Climb(trials, limit)) return next;
    if (trials.empty()) return std::nullopt;
    const Trial& highest = trials[Highest(trials)];
    if (const auto next = Neighbour(trials, highest.layout.learners, limit)) {
      return next;
    }
    return Doubtful(trials, highest);
  }

  size_t Best(const std::vector<Trial>& trials) const override {
    const double enough = trials[Highest(trials)].Median() * (1 - threshold_);
    std::optional<size_t> best;
    for (size_t i = 0; i < trials.size(); ++i) {
      if (trials[i].Median() < enough) continue;
      if (!best || trials[i].layout.learners < trials[*best].layout.learners) best = i;
    }
    return *best;
  }

 private:
  static constexpr double kClearDecline = 0.1;
  static constexpr size_t kFewDivisors = 4;
  static constexpr size_t kMostWindows = 12;

  Layout LayoutOf(int learners) const { return {learners, cores_ / learners}; }

  std::optional<Layout> Climb(const std::vector<Trial>& trials, int limit) const {
    const Trial* top = nullptr;
    for (int m : divisors_) {
      if (m >= limit) break;
      const Trial* trial = Find(trials, LayoutOf(m));
      if (trial == nullptr) return LayoutOf(m);
      if (top == nullptr || trial->Median() > top->Median()) top = trial;
      const double decline = 1 - trial->Median() / top->Median();
      if (divisors_.size() > kFewDivisors &&
          decline > kClearDecline + Doubt(*trial, *top, Noise(trials))) {
        break;
      }
    }
    return std::nullopt;
  }

  std::optional<Layout> Neighbour(const std::vector<Trial>& trials, int learners,
                                  int limit) const {
    if (learners <= 1 || learners >= cores_) return std::nullopt;
    for (int m : {learners + 1, learners - 1}) {
      if (m < limit && Find(trials, LayoutOf(m)) == nullptr) return LayoutOf(m);
    }
    return std::nullopt;
  }

  std::optional<Layout> Doubtful(const std::vector<Trial>& trials,
                                 const Trial& highest) const {
    const double noise = Noise(trials);
    const Trial* fewest = nullptr;
    bool any = false;
    for (const Trial& trial : trials) {
      const double doubt = Doubt(trial, highest, noise);
      const double gap = 1 - trial.Median() / highest.Median();
      if (doubt <= threshold_ || gap > doubt) continue;
      any = any || &trial != &highest;
      if (fewest == nullptr || trial.rates.size() < fewest->rates.size()) {
        fewest = &trial;
      }
    }
    if (!any || fewest->rates.size() >= kMostWindows) return std::nullopt;
    return fewest->layout;
  }

  const int cores_;
  const double threshold_;
  std::vector<int> divisors_;
};

class DeviceSearch : public LayoutSearch {
 public:
  DeviceSearch(int most_learners, int threads, double threshold)
      : most_learners_(most_learners), threads_(threads), threshold_(threshold) {}

  std::optional<Layout> Next(const std::vector<Trial>& trials,
                             int limit) const override {
    const Trial* previous = nullptr;
    for (int m = 1; m <= most_learners_ && m < limit; ++m) {
      const Trial* trial = Find(trials, {m, threads_});
      if (trial == nullptr) return Layout{m, threads_};
      if (previous != nullptr &&
          trial->Median() <= previous->Median() * (1 + threshold_)) {
        break;
      }
      previous = trial;
    }
    return std::nullopt;
  }

  size_t Best(const std::vector<Trial>& trials) const override {
    return Highest(trials);
  }

 private:
  const int most_learners_;
  const int threads_;
  const double threshold_;
};

}  // namespace

double Trial::Median() const {
  std::vector<double> sorted = rates;
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

double Trial::Range() const {
  const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
  return (*most - *least) / Median();
}

std::unique_ptr<LayoutSearch> SearchOnCores(int cores, double threshold) {
  return std::make_unique<CoresSearch>(cores, threshold);
}

std::unique_ptr<LayoutSearch> SearchOnDevice(int most_learners, int threads,
                                             double threshold) {
  return std::make_unique<DeviceSearch>(most_learners, threads, threshold);
}

}  // namespace tensorbow
