#include "cc/session/layout_tuning.h"

#include <optional>
#include <utility>

#include "absl/hash/hash.h"
#include "cc/support/cpus.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace {

// The most learners that are tried on an accelerator.
constexpr int kMostOnDevice = 32;

}  // namespace

void LayoutTuning::Start() {
  absl::MutexLock lock(&mu_);
  StartLocked();
}

void LayoutTuning::StartLocked() {
  Layout first = trainer_->layout();
  std::unique_ptr<LayoutSearch> search;
  if (on_accelerators_) {
    search = SearchOnDevice(kMostOnDevice, first.threads);
  } else {
    const int cores = NumCores();
    if (first.learners == 1) first.threads = cores;
    search = SearchOnCores(cores);
  }
  tuner_ =
      std::make_unique<LayoutTuner>(LayoutTuner::Settings(), std::move(search), first);
}

Layout LayoutTuning::EffectiveLayout(const Layout& tried) const {
  return tried.learners == 1 && !on_accelerators_ ? Layout{1, 0} : tried;
}

bool LayoutTuning::active() {
  absl::MutexLock lock(&mu_);
  return tuner_ != nullptr;
}

void LayoutTuning::End() {
  absl::MutexLock lock(&mu_);
  tuner_.reset();
}

absl::Status LayoutTuning::StartAgainAfter(
    const std::function<absl::Status()>& change) {
  absl::MutexLock lock(&mu_);
  TF_RETURN_IF_ERROR(change());
  if (tuner_ != nullptr) StartLocked();
  return absl::OkStatus();
}

absl::Status LayoutTuning::SetLearners(int learners_per_device,
                                       std::vector<int> threads) {
  absl::MutexLock lock(&mu_);
  Layout layout;
  if (threads.empty()) {
    TF_ASSIGN_OR_RETURN(layout, trainer_->LayoutOf(learners_per_device));
  } else if (threads.size() == 1) {
    layout = {learners_per_device, threads[0]};
  } else {
    layout = Layout::Of(std::move(threads));
  }
  tuner_.reset();
  return set_layout_(layout);
}

void LayoutTuning::Record(uint64_t step, const Layout& layout, int64_t rows,
                          double seconds) {
  // While one thread changes the layout, the runs of others say nothing.
  if (!mu_.TryLock()) return;
  if (tuner_ != nullptr && layout == EffectiveLayout(tuner_->layout())) {
    const uint64_t program = absl::HashOf(step, rows);
    const std::optional<Layout> next = tuner_->Ran(program, rows, seconds);
    if (next.has_value()) Try(*next);
  }
  mu_.Unlock();
}

bool LayoutTuning::Try(Layout next) {
  absl::Status set = set_layout_(EffectiveLayout(next));
  while (!set.ok()) {
    const Layout failed = next;
    next = tuner_->Failed(std::string(set.message()));
    if (next == failed) return false;
    set = set_layout_(EffectiveLayout(next));
  }
  return true;
}

bool LayoutTuning::GiveUp(const Layout& layout, const std::string& why) {
  absl::MutexLock lock(&mu_);
  if (tuner_ == nullptr) return false;
  // Another thread's run may have given it up.
  if (layout != EffectiveLayout(tuner_->layout())) return true;
  return layout.learners > 1 && Try(tuner_->Failed(why));
}

std::vector<LayoutTuner::Measurement> LayoutTuning::log() {
  absl::MutexLock lock(&mu_);
  return tuner_ == nullptr ? std::vector<LayoutTuner::Measurement>() : tuner_->log();
}

}  // namespace tensorbow
