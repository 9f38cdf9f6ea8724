#include "cc/coordination/merging_hosts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

absl::Status MergingHosts::AwaitOthers() {
  if (knows_hosts()) return absl::OkStatus();
  TF_ASSIGN_OR_RETURN(const auto learners, Gather(training_->num_learners()));
  for (const auto& [host, count] : learners) {
    learners_.push_back(static_cast<int>(count));
  }
  AlgorithmChosen();
  return absl::OkStatus();
}

void MergingHosts::AlgorithmChosen() {
  if (knows_hosts()) training_->SetHosts(learners_);
}

absl::StatusOr<HostMerges::Outcome> MergingHosts::Visit(HostMerges::Visit visit,
                                                        const HostRun* run) {
  absl::StatusOr<TrainedSet> all = training_->LocateModel();
  if (!all.ok()) {
    // Other hosts may be waiting for this one.
    rounds_->hosts()->Fail(std::string(all.status().message()));
    return all.status();
  }
  Adaptive* const adaptive = training_->adaptive();
  visit.program = training_->ModelFingerprint();
  visit.small = adaptive->AreSmall(*all);
  const HostRounds::Counts own = training_->counts();
  const int64_t tasks = own.tasks + (run == nullptr ? 0 : run->pending_tasks);
  const int64_t rows = own.rows + (run == nullptr ? 0 : run->pending_rows);
  visit.tasks = tasks - tasks_reported_;
  visit.rows = rows - rows_reported_;
  const HostMerges::Outcome outcome = training_->host_merges()->Join(visit);
  if (outcome.result == Result::kBroken) return absl::UnavailableError(rounds_->why());
  tasks_reported_ = tasks;
  rows_reported_ = rows;
  tasks_of_others_.fetch_add(outcome.tasks_of_others);
  rows_of_others_.fetch_add(outcome.rows_of_others);
  if (outcome.result == Result::kDiscarded) {
    adaptive->Abandon(*all);
  } else if (outcome.merges && !adaptive->Merge(*all, outcome.small)) {
    rounds_->Break();
    return absl::UnavailableError(rounds_->why());
  }
  return outcome;
}

absl::Status MergingHosts::Abandoned() {
  const std::string why = rounds_->why();
  rounds_->AcknowledgeFailure();
  return absl::AbortedError(absl::StrCat(
      why, ": AdaptiveSGD discards all that hosts have trained since the last merge"));
}

absl::StatusOr<bool> MergingHosts::Merge(const HostRun& run) {
  const absl::StatusOr<HostMerges::Outcome> outcome = Visit({}, &run);
  stopped_run_ = !outcome.ok() || outcome->result == Result::kDiscarded;
  if (!stopped_run_) return true;
  return outcome.ok() ? Abandoned() : outcome.status();
}

absl::StatusOr<bool> MergingHosts::FlushMegaBatch() {
  TF_RETURN_IF_ERROR(RestUntil(/*wants_merge=*/true));
  return true;
}

absl::Status MergingHosts::RestUntil(bool wants_merge) {
  if (!knows_hosts()) return absl::OkStatus();
  HostMerges::Visit visit{HostRounds::Kind::kNoData};
  visit.wants_merge = wants_merge;
  while (true) {  // ends with the others' data, or with the cluster
    TF_ASSIGN_OR_RETURN(const HostMerges::Outcome outcome,
                        Visit(visit, /*run=*/nullptr));
    if (outcome.result == Result::kDiscarded) return Abandoned();
    if (outcome.result == Result::kCounts) continue;
    if (outcome.left < 0 || wants_merge) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "Host ", outcome.left,
        " has closed its session while this host writes variables, starts training, or "
        "saves or loads its state. Run the same program on all hosts"));
  }
}

absl::StatusOr<bool> MergingHosts::AfterRun(const HostRun& run) {
  if (std::exchange(stopped_run_, false)) return false;  // the run has the error
  if (run.failed) {
    // The user gets the run's own error.
    Visit({HostRounds::Kind::kFailed}, /*run=*/nullptr).IgnoreError();
    rounds_->AcknowledgeFailure();
    return false;
  }
  if (!run.has_data) TF_RETURN_IF_ERROR(RestUntil(/*wants_merge=*/true));
  return false;
}

void MergingHosts::Leave() {
  if (!knows_hosts()) return ConnectedHosts::Leave();
  WarnOfDiscarded();
  rounds_->Await();
  while (true) {  // ends when all have left, or with the cluster
    const absl::StatusOr<HostMerges::Outcome> outcome =
        Visit({HostRounds::Kind::kLeft}, /*run=*/nullptr);
    rounds_->AcknowledgeFailure();
    if (!outcome.ok() || outcome->all_left) return;
  }
}

void MergingHosts::CountersLoaded() {
  tasks_reported_ = training_->counts().tasks;
  rows_reported_ = training_->counts().rows;
}

}  // namespace tensorbow
