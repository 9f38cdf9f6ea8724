#include "cc/coordination/merging_hosts.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/hash.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using Fate = HostRounds::Fate;

}  // namespace

absl::Status Trainer::MergesOfHosts::LearnHosts() {
  trainer_->mu_.AssertHeld();
  if (knows_hosts()) return absl::OkStatus();
  TF_ASSIGN_OR_RETURN(const auto learners,
                      trainer_->GatherFromHosts(trainer_->num_learners()));
  for (const auto& [host, count] : learners) {
    learners_.push_back(static_cast<int>(count));
  }
  SetHosts();
  return absl::OkStatus();
}

void Trainer::MergesOfHosts::SetHosts() {
  trainer_->mu_.AssertHeld();
  if (trainer_->synchronisation_ == nullptr || !knows_hosts()) return;
  const Options& options = trainer_->options_;
  const bool by_speed = options.scheduling == SchedulingPolicy::kFirstComeFirstServed;
  trainer_->synchronisation_->adaptive->batches().SetHosts(
      learners_, options.hosts->rank(), by_speed);
}

int64_t Trainer::MergesOfHosts::Program() const {
  const ReplicatedVariables& variables = *trainer_->variables_;
  std::string text;
  for (int id = 0; id < variables.size(); ++id) {
    if (!variables.trained(id) || !variables.in_model(id)) continue;
    absl::StrAppend(&text, variables.node(id).name(), "\n");
  }
  return static_cast<int64_t>(tf::Hash64(text));
}

absl::StatusOr<HostMerges::Outcome> Trainer::MergesOfHosts::Meet(
    HostMerges::Visit visit, const LearningRun* run) {
  Adaptive* const adaptive = trainer_->synchronisation_->adaptive;
  HostRounds* const rounds = trainer_->rounds_.get();
  absl::StatusOr<TrainedSet> all = trainer_->LocateAll();
  if (!all.ok()) {  // the others are told, who may be waiting for this one
    rounds->hosts()->Fail(std::string(all.status().message()));
    return all.status();
  }
  visit.program = Program();
  visit.small = adaptive->AreSmall(*all);
  const int64_t tasks =
      trainer_->learning_tasks_.load() + (run == nullptr ? 0 : run->NumTasks());
  const int64_t rows =
      trainer_->samples_seen_.load() + (run == nullptr ? 0 : run->NumRows());
  visit.tasks = tasks - tasks_reported_;
  visit.rows = rows - rows_reported_;
  const HostMerges::Outcome met = trainer_->synchronisation_->host_merges->Meet(visit);
  if (met.fate == Fate::kBroken) return absl::UnavailableError(rounds->why());
  tasks_reported_ = tasks;
  rows_reported_ = rows;
  tasks_of_others_.fetch_add(met.tasks_of_others);
  rows_of_others_.fetch_add(met.rows_of_others);
  if (met.fate == Fate::kDiscarded) {
    adaptive->Abandon(*all);
  } else if (met.merges && !adaptive->Merge(*all, met.small)) {
    rounds->Break();
    return absl::UnavailableError(rounds->why());
  }
  return met;
}

absl::Status Trainer::MergesOfHosts::Abandoned() {
  const std::string why = trainer_->rounds_->why();
  trainer_->rounds_->AcknowledgeFailure();
  return absl::AbortedError(absl::StrCat(
      why, ": AdaptiveSGD discards all that hosts have trained since the last merge"));
}

absl::Status Trainer::MergesOfHosts::Merge(const LearningRun& run) {
  trainer_->mu_.AssertHeld();
  const absl::StatusOr<HostMerges::Outcome> met = Meet({}, &run);
  stopped_run_ = !met.ok() || met->fate == Fate::kDiscarded;
  if (!stopped_run_) return absl::OkStatus();
  return met.ok() ? Abandoned() : met.status();
}

absl::Status Trainer::MergesOfHosts::Rest(bool wants_merge) {
  trainer_->mu_.AssertHeld();
  if (!knows_hosts()) return absl::OkStatus();
  HostMerges::Visit visit{HostRounds::Kind::kNoData};
  visit.wants_merge = wants_merge;
  while (true) {  // ends with the others' data, or with the cluster
    TF_ASSIGN_OR_RETURN(const HostMerges::Outcome met, Meet(visit, /*run=*/nullptr));
    if (met.fate == Fate::kDiscarded) return Abandoned();
    if (met.fate == Fate::kCounts) continue;
    if (met.left < 0 || wants_merge) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "Host ", met.left,
        " has closed its session while this host writes variables, starts training, or "
        "saves or loads its state. Run the same program on all hosts"));
  }
}

absl::Status Trainer::MergesOfHosts::Follow(const LearningRun& run) {
  trainer_->mu_.AssertHeld();
  if (std::exchange(stopped_run_, false))
    return absl::OkStatus();  // run.status() says it
  if (run.failed()) {
    // The user is told why the run has failed.
    Meet({HostRounds::Kind::kFailed}, /*run=*/nullptr).IgnoreError();
    trainer_->rounds_->AcknowledgeFailure();
    return absl::OkStatus();
  }
  return absl::IsOutOfRange(run.status()) ? Rest(/*wants_merge=*/true)
                                          : absl::OkStatus();
}

bool Trainer::MergesOfHosts::Leave() {
  trainer_->mu_.AssertHeld();
  if (!knows_hosts()) return false;
  while (true) {  // ends when all have left, or with the cluster
    const absl::StatusOr<HostMerges::Outcome> met =
        Meet({HostRounds::Kind::kLeft}, /*run=*/nullptr);
    trainer_->rounds_->AcknowledgeFailure();
    if (!met.ok() || met->all_left) return true;
  }
}

void Trainer::MergesOfHosts::ResumeCounts() {
  trainer_->mu_.AssertHeld();
  tasks_reported_ = trainer_->learning_tasks_.load();
  rows_reported_ = trainer_->samples_seen_.load();
}

}  // namespace tensorbow
