// How many learners a session has: TensorBowSession's layout, chosen by its user or
// found by measuring the learning runs.
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "cc/session/tensorbow_session.h"
#include "cc/support/cpus.h"

namespace tensorbow {

namespace {

// One learner is tried on all cores, which are those that a stock session computes on.
Layout TakenAs(const Layout& tried) {
  return tried.learners == 1 ? Layout{1, 0} : tried;
}

}  // namespace

void TensorBowSession::StartTuning() {
  const int cores = NumCores();
  Layout first = trainer_->layout();
  if (first.learners == 1) first.threads = cores;
  tuner_ = std::make_unique<LayoutTuner>(LayoutTuner::Settings(), SearchOnCores(cores),
                                         first);
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
    const uint64_t program = absl::HashOf(&signature, outcome.rows);
    std::optional<Layout> next = tuner_->Ran(program, outcome.rows, seconds);
    while (next.has_value()) {
      const absl::Status taken = TakeLayout(TakenAs(*next));
      next.reset();
      if (!taken.ok()) next = tuner_->Failed(std::string(taken.message()));
    }
  }
  tuner_mu_.Unlock();
}

std::vector<LayoutTuner::Measurement> TensorBowSession::Tuning() {
  absl::MutexLock lock(&tuner_mu_);
  return tuner_ == nullptr ? std::vector<LayoutTuner::Measurement>() : tuner_->log();
}

}  // namespace tensorbow
