// Adaptive SGD over the hosts of a cluster: when a Trainer meets the other hosts
// (cc/synchroniser/host_merges.h), and what it does then.
//
// A run meets them when this host has trained on its share of the mega-batch. Whatever
// all hosts do together (variables that are written, states that are saved and loaded)
// comes after a rest: a host that is there first takes part in the merges of the others
// until they are there, too. So hosts may come to the same place of their program after
// different numbers of merges.
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/training/trainer.h"
#include "tensorflow/core/platform/hash.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using Fate = HostRounds::Fate;
using Kind = HostRounds::Kind;

}  // namespace

bool Trainer::MergesWithHosts() const {
  return synchronisation_ != nullptr && synchronisation_->host_merges != nullptr &&
         !learners_of_hosts_.empty();
}

absl::Status Trainer::LearnHosts() {
  if (options_.algorithm != Options::Algorithm::kAdaptive ||
      !learners_of_hosts_.empty()) {
    return absl::OkStatus();
  }
  TF_ASSIGN_OR_RETURN(const auto learners, GatherFromHosts(num_learners()));
  for (const auto& [host, count] : learners) {
    learners_of_hosts_.push_back(static_cast<int>(count));
  }
  SetHostsOfMegaBatches();
  return absl::OkStatus();
}

void Trainer::SetHostsOfMegaBatches() {
  if (!MergesWithHosts()) return;
  const bool by_speed = options_.scheduling == SchedulingPolicy::kFirstComeFirstServed;
  synchronisation_->adaptive->batches().SetHosts(learners_of_hosts_,
                                                 options_.hosts->rank(), by_speed);
}

absl::StatusOr<HostMerges::Outcome> Trainer::MeetToMerge(HostMerges::Visit visit,
                                                         const LearningRun* run) {
  Adaptive* const adaptive = synchronisation_->adaptive;
  absl::StatusOr<TrainedSet> all = LocateAll();
  if (!all.ok()) {  // the others are told, who may be waiting for this one
    rounds_->hosts()->Fail(std::string(all.status().message()));
    return all.status();
  }
  std::string text;
  for (int id = 0; id < variables_->size(); ++id) {
    if (!variables_->trained(id) || !variables_->in_model(id)) continue;
    absl::StrAppend(&text, variables_->node(id).name(), "\n");
  }
  visit.program = static_cast<int64_t>(tf::Hash64(text));
  visit.small = adaptive->AreSmall(*all);
  const int64_t tasks = learning_tasks_.load() + (run == nullptr ? 0 : run->NumTasks());
  const int64_t rows = samples_seen_.load() + (run == nullptr ? 0 : run->NumRows());
  visit.tasks = tasks - tasks_at_merge_;
  visit.rows = rows - rows_at_merge_;
  const HostMerges::Outcome met = synchronisation_->host_merges->Meet(visit);
  if (met.fate == Fate::kBroken) return absl::UnavailableError(rounds_->why());
  tasks_at_merge_ = tasks;  // which all hosts know of from now on
  rows_at_merge_ = rows;
  tasks_of_others_.fetch_add(met.tasks_of_others);
  rows_of_others_.fetch_add(met.rows_of_others);
  if (met.fate == Fate::kDiscarded) {
    adaptive->Abandon(*all);
  } else if (met.merges && !adaptive->Merge(*all, met.small)) {
    rounds_->Break();
    return absl::UnavailableError(rounds_->why());
  }
  return met;
}

absl::Status Trainer::Abandoned() {
  const std::string why = rounds_->why();
  rounds_->Forgive();
  return absl::AbortedError(absl::StrCat(
      why,
      ": with AdaptiveSGD that is all that hosts have trained since the last merge"));
}

absl::Status Trainer::RestWithHosts(bool wants_merge) {
  if (!MergesWithHosts()) return absl::OkStatus();
  HostMerges::Visit visit{Kind::kNoData};
  visit.wants_merge = wants_merge;
  while (true) {  // ends with the others' data, or with the cluster
    TF_ASSIGN_OR_RETURN(const HostMerges::Outcome met,
                        MeetToMerge(visit, /*run=*/nullptr));
    if (met.fate == Fate::kDiscarded) return Abandoned();
    if (met.fate == Fate::kCounts) continue;
    if (met.left < 0 || wants_merge) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "Host ", met.left,
        " has closed its session while this one writes variables, begins to train, or "
        "saves or loads its state. All hosts have to run the same program"));
  }
}

absl::Status Trainer::FollowMerges(const LearningRun& run) {
  if (std::exchange(stopped_by_merge_, false)) return absl::OkStatus();  // run.status()
  if (run.failed()) {
    // The user is told why the run has failed.
    MeetToMerge({Kind::kFailed}, /*run=*/nullptr).IgnoreError();
    rounds_->Forgive();
    return absl::OkStatus();
  }
  if (!absl::IsOutOfRange(run.status())) return absl::OkStatus();
  return RestWithHosts(/*wants_merge=*/true);
}

void Trainer::LeaveMerges() {
  while (true) {  // ends when all have left, or with the cluster
    const absl::StatusOr<HostMerges::Outcome> met =
        MeetToMerge({Kind::kLeft}, /*run=*/nullptr);
    rounds_->Forgive();
    if (!met.ok() || met->all_left) return;
  }
}

}  // namespace tensorbow
