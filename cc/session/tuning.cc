// How many learners a session has: TensorBowSession's layout, chosen by its user or
// found by measuring the learning runs.
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "cc/session/tensorbow_session.h"
#include "cc/support/cpus.h"

namespace tensorbow {

namespace {

// More learners than this on an accelerator are not tried.
constexpr int kMostOnDevice = 32;

}  // namespace

void TensorBowSession::StartTuning() {
  Layout first = trainer_->layout();
  std::unique_ptr<LayoutSearch> search;
  if (accelerators_ != nullptr) {
    search = SearchOnDevice(kMostOnDevice, first.threads);
  } else {
    const int cores = NumCores();
    if (first.learners == 1) first.threads = cores;
    search = SearchOnCores(cores);
  }
  tuner_ =
      std::make_unique<LayoutTuner>(LayoutTuner::Settings(), std::move(search), first);
}

Layout TensorBowSession::TakenAs(const Layout& tried) const {
  return tried.learners == 1 && accelerators_ == nullptr ? Layout{1, 0} : tried;
}

absl::Status TensorBowSession::TakeLayout(const Layout& layout) {
  {
    absl::MutexLock compiling(&compile_mu_);
    TF_RETURN_IF_ERROR(trainer_->SetLayout(layout));
  }
  ForgetUncompiled();
  return absl::OkStatus();
}

bool TensorBowSession::tunes_learners() {
  absl::MutexLock lock(&tuner_mu_);
  return tuner_ != nullptr;
}

void TensorBowSession::EndTuning() {
  absl::MutexLock lock(&tuner_mu_);
  tuner_.reset();
}

absl::Status TensorBowSession::SetLearners(int learners_per_device,
                                           std::vector<int> threads) {
  TF_RETURN_IF_ERROR(CheckOpen());
  absl::MutexLock lock(&tuner_mu_);
  Layout layout;
  if (threads.empty()) {
    TF_ASSIGN_OR_RETURN(layout, trainer_->LayoutOf(learners_per_device));
  } else if (threads.size() == 1) {
    layout = {learners_per_device, threads[0]};
  } else {
    layout = Layout::Of(std::move(threads));
  }
  tuner_.reset();
  return TakeLayout(layout);
}

void TensorBowSession::ForgetUncompiled() {
  absl::MutexLock lock(&mu_);
  absl::erase_if(signatures_, [](const auto& known) {
    const Signature& signature = *known.second;
    return !signature.for_learners() && signature.analysis.central_only.empty() &&
           signature.analysis.kind == RunAnalysis::Kind::kLearning;
  });
}

void TensorBowSession::Tune(const Signature& signature, const RunOutcome& outcome,
                            double seconds) {
  // While one thread changes the layout, the runs of others say nothing.
  if (!tuner_mu_.TryLock()) return;
  if (tuner_ != nullptr && outcome.layout == TakenAs(tuner_->layout())) {
    const uint64_t program = absl::HashOf(&signature, outcome.num_rows);
    const std::optional<Layout> next = tuner_->Ran(program, outcome.num_rows, seconds);
    if (next.has_value()) Try(*next);
  }
  tuner_mu_.Unlock();
}

bool TensorBowSession::Try(Layout next) {
  absl::Status taken = TakeLayout(TakenAs(next));
  while (!taken.ok()) {
    const Layout failed = next;
    next = tuner_->Failed(std::string(taken.message()));
    if (next == failed) return false;
    taken = TakeLayout(TakenAs(next));
  }
  return true;
}

bool TensorBowSession::GiveUpLayout(const Layout& layout, const std::string& why) {
  absl::MutexLock lock(&tuner_mu_);
  if (tuner_ == nullptr) return false;
  if (layout != TakenAs(tuner_->layout())) return true;  // another thread's run has
  return layout.learners > 1 && Try(tuner_->Failed(why));
}

absl::StatusOr<RunOutcome> TensorBowSession::RunOnLearners(const Signature& signature,
                                                           const RunRequest& request) {
  const bool may_give_up = options_.tunes_learners && accelerators_ != nullptr;
  for (;;) {
    const Layout layout = may_give_up ? trainer_->layout() : Layout();
    const int64_t iterations = may_give_up ? trainer_->iterations() : 0;
    const absl::Time begin = absl::Now();
    absl::StatusOr<RunOutcome> outcome = trainer_->Run(request);
    if (outcome.ok() && outcome->recompile) {
      Recompile(signature, outcome->rows.has_value() ? &*outcome->rows : nullptr);
      continue;
    }
    if (outcome.ok() && outcome->again) continue;
    if (may_give_up && absl::IsResourceExhausted(outcome.status())) {
      const bool changed =
          GiveUpLayout(layout, std::string(outcome.status().message()));
      const bool took_data =
          signature.analysis.takes_data || signature.analysis.calls_take_data;
      if (changed && !took_data && trainer_->iterations() == iterations) continue;
    }
    if (options_.tunes_learners && outcome.ok() && outcome->executed) {
      Tune(signature, *outcome, absl::ToDoubleSeconds(absl::Now() - begin));
    }
    return outcome;
  }
}

std::vector<LayoutTuner::Measurement> TensorBowSession::Tuning() {
  absl::MutexLock lock(&tuner_mu_);
  return tuner_ == nullptr ? std::vector<LayoutTuner::Measurement>() : tuner_->log();
}

}  // namespace tensorbow
