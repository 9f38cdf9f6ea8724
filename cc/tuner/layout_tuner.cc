#include "cc/tuner/layout_tuner.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace tensorbow {
namespace {

// Calm windows, as a multiple of the patience, after which the patience is halved. A
// tuning takes some ten windows, so one more of them costs little then.
constexpr int64_t kCalm = 100;
constexpr int64_t kMostPatience = int64_t{1} << 40;
// Windows before a confirmation, as a multiple of the tuning's windows: at most a tenth
// of the time at first, and about half as much each time.
constexpr int64_t kConfirmAfter = 10;
constexpr int64_t kMostConfirmAfter = int64_t{1} << 40;

// The throughput of the fastest block of runs below which a layout is given up, as a
// share of the best layout's.
constexpr double kHopeless = 0.75;
// The minimum of a trial before it is given up, and of a block, as shares of a
// window's.
constexpr int64_t kHopelessRuns = 3;
constexpr double kHopelessSeconds = 0.6;
constexpr double kBlockSeconds = 0.1;

std::string ThroughputChanged(double before, double now) {
  char text[80];
  std::snprintf(text, sizeof(text), "%.4g samples/s have become %.4g", before, now);
  return text;
}

}  // namespace

LayoutTuner::LayoutTuner(const Settings& settings, std::unique_ptr<LayoutSearch> search,
                         const Layout& first)
    : settings_(settings),
      search_(std::move(search)),
      first_(first),
      layout_(first),
      window_(settings.window_seconds, settings.window_runs),
      patience_(settings.patience),
      confirm_after_(kConfirmAfter) {
  Try(first);
}

std::optional<Layout> LayoutTuner::Ran(uint64_t program, int64_t samples,
                                       double seconds) {
  if (samples <= 0 || !(seconds > 0)) return std::nullopt;
  if (!started_) {
    started_ = true;
    window_.Watch(program);
  }
  if (AddToTrial(program, samples, seconds)) {
    window_.Begin();
    tuning_windows_ += settings_.windows + (warm_ ? 0 : 1);  // as of any other layout
    trial_.rates = {fastest_};
    return EndTrial();
  }
  const RunWindow::State state = window_.Add(program, samples, seconds);
  if (state == RunWindow::State::kOpen) return std::nullopt;
  return EndWindow(state);
}

std::optional<Layout> LayoutTuner::EndWindow(RunWindow::State state) {
  const bool foreign = state == RunWindow::State::kForeign;
  const double rate = foreign ? 0 : window_.samples_per_second();
  const std::optional<uint64_t> dominant = window_.Dominant();
  window_.Begin();
  if (!settled_) ++tuning_windows_;
  if (!foreign && !warm_) {
    warm_ = true;
    return std::nullopt;
  }
  if (foreign || RegimeChanged(rate)) {
    calm_ = 0;
    if (++strange_ < patience_) return std::nullopt;
    if (foreign) {
      TuneAgain(dominant, "another program trains");
    } else {
      TuneAgain(window_.watched(), ThroughputChanged(expected_, rate));
    }
    return std::nullopt;
  }
  strange_ = 0;
  if (settled_) {
    if (++calm_ >= kCalm * patience_) {
      calm_ = 0;
      patience_ = std::max<int64_t>(settings_.patience, patience_ / 2);
    }
    if (--confirm_in_ == 0) {
      confirm_after_ = std::min(2 * confirm_after_, kMostConfirmAfter);
      Restart("to confirm");
    }
    return std::nullopt;
  }
  trial_.rates.push_back(rate);
  if (trial_.rates.size() < goal_) return std::nullopt;
  return EndTrial();
}

bool LayoutTuner::AddToTrial(uint64_t program, int64_t samples, double seconds) {
  if (settled_ || trials_.empty() || !trial_.rates.empty()) return false;
  if (window_.watched().has_value() && program != *window_.watched()) return false;
  ++trial_runs_;
  trial_seconds_ += seconds;
  ++block_runs_;
  block_samples_ += samples;
  block_seconds_ += seconds;
  if (block_runs_ < settings_.window_runs ||
      block_seconds_ < kBlockSeconds * settings_.window_seconds) {
    return false;
  }
  fastest_ = std::max(fastest_, block_samples_ / block_seconds_);
  block_runs_ = 0;
  block_samples_ = block_seconds_ = 0;
  if (trial_runs_ < kHopelessRuns * settings_.window_runs ||
      trial_seconds_ < kHopelessSeconds * settings_.window_seconds) {
    return false;
  }
  double best = 0;
  for (const Trial& trial : trials_) best = std::max(best, trial.Median());
  return fastest_ < kHopeless * best;
}

std::optional<Layout> LayoutTuner::EndTrial() {
  Record();
  trials_.push_back(std::move(trial_));
  if (!Advance()) return std::nullopt;
  return layout_;
}

bool LayoutTuner::RegimeChanged(double rate) const {
  return settled_ && expected_ > 0 &&
         std::abs(rate / expected_ - 1) > settings_.regime_change;
}

void LayoutTuner::TuneAgain(std::optional<uint64_t> program, std::string why) {
  patience_ = std::min(2 * patience_, kMostPatience);
  confirm_after_ = kConfirmAfter;
  window_.Watch(program);
  Restart(std::move(why));
}

void LayoutTuner::Restart(std::string why) {
  why_again_ = "again: " + std::move(why);
  strange_ = 0;
  settled_ = false;
  tuning_windows_ = 0;
  trials_.clear();
  Try(layout_);
}

Layout LayoutTuner::Failed(const std::string& why) {
  limit_ = std::min(limit_, layout_.learners);
  log_.push_back({layout_, 0, 0, "skipped: " + why, false});
  const auto too_many = [&](const Trial& trial) {
    if (trial.layout.learners < limit_) return false;
    log_[*trial.entry].chosen = false;
    return true;
  };
  trials_.erase(std::remove_if(trials_.begin(), trials_.end(), too_many),
                trials_.end());
  settled_ = false;
  strange_ = 0;
  Advance();
  return layout_;
}

bool LayoutTuner::Advance() {
  const Layout before = layout_;
  if (const auto next = search_->Next(trials_, limit_)) {
    Try(*next);
  } else {
    Settle();
  }
  return layout_ != before;
}

void LayoutTuner::Try(const Layout& layout) {
  trial_ = Trial{layout, {}, std::nullopt};
  const auto measured =
      std::find_if(trials_.begin(), trials_.end(),
                   [&](const Trial& t) { return t.layout == layout; });
  if (measured != trials_.end()) {
    trial_ = std::move(*measured);
    trials_.erase(measured);
  }
  goal_ = trial_.rates.size() + settings_.windows;
  Take(layout);
  if (trial_.rates.empty()) warm_ = false;
}

void LayoutTuner::Settle() {
  settled_ = true;
  expected_ = 0;
  if (trials_.empty()) {
    Take(first_);
    return;
  }
  // A single trial needs no confirmation.
  confirm_in_ = trials_.size() > 1 ? confirm_after_ * tuning_windows_ : 0;
  const Trial& best = trials_[search_->Best(trials_)];
  log_[*best.entry].chosen = true;
  expected_ = best.Median();
  Take(best.layout);
}

void LayoutTuner::Record() {
  if (!trial_.entry.has_value()) {
    trial_.entry = log_.size();
    log_.push_back({trial_.layout, 0, 0, std::exchange(why_again_, ""), false});
  }
  Measurement& entry = log_[*trial_.entry];
  entry.samples_per_second = trial_.Median();
  entry.spread = trial_.Range();
}

void LayoutTuner::Take(const Layout& layout) {
  if (layout == layout_) return;
  layout_ = layout;
  warm_ = false;
  trial_runs_ = 0;
  block_runs_ = 0;
  trial_seconds_ = block_samples_ = block_seconds_ = fastest_ = 0;
  window_.Begin();
}

}  // namespace tensorbow
