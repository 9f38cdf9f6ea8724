// The part of a Trainer that begins mega-batches and merges models, for Adaptive SGD
// (cc/synchroniser/algorithms/adaptive.h).
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "cc/coordination/merging_hosts.h"
#include "cc/trainer/learning_run.h"
#include "cc/trainer/trainer.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

// On several hosts also of what has been written since: it is merged before it is
// overwritten, as on the hosts that have not come there yet.
absl::StatusOr<TrainedSet> Trainer::LocateAll() {
  std::vector<int> ids, model_indices, changes;
  for (int id = 0; id < variables_->size(); ++id) {
    if (!variables_->trained(id)) continue;
    const bool written = !variables_->replicas_up_to_date(id);
    if (written && (rounds_ == nullptr || !variables_->in_model(id))) continue;
    if (!written) changes.push_back(id);
    ids.push_back(id);
    model_indices.push_back(variables_->model_index(id));
  }
  TrainedSet all(num_learners(), std::move(model_indices));
  TF_RETURN_IF_ERROR(LocateReplicas(ids, &all));
  variables_->MarkLearned(changes, {});
  return all;
}

MegaBatches* Trainer::BeginBatches(const FeedPlan& plan) {
  Adaptive* const adaptive = synchronisation_->adaptive;
  if (adaptive == nullptr) return nullptr;
  const int64_t rows = plan.tasks.empty() ? 0 : plan.tasks.back().end;
  MegaBatches* const batches = &adaptive->batches();
  // Of a pipeline's elements the rows are not known before.
  batches->Begin(rows > 0 ? rows : num_learners());
  if (plan.tasks.size() == 1) {
    warn_(
        "AdaptiveSGD: a learning run was fed no more rows than one learner's batch "
        "has: "
        "one learner trains and the others have nothing to do. Feed several batches "
        "for "
        "each learner in one run, best a whole mega-batch, or give a smaller b_max.");
  }
  return batches;
}

absl::Status Trainer::MergeModels(const LearningRun* run) {
  const ScopedMark marked(&activity_, "merge");
  if (merges_ != nullptr) return merges_->Merge(*run);
  TF_ASSIGN_OR_RETURN(const TrainedSet all, LocateAll());
  Adaptive* const adaptive = synchronisation_->adaptive;
  adaptive->Merge(all, adaptive->AreSmall(all));
  return absl::OkStatus();
}

absl::Status Trainer::MergeWhatIsLeft() {
  if (options_.algorithm != Options::Algorithm::kAdaptive) {
    return absl::FailedPreconditionError(
        "merge() is for sessions with AdaptiveSGD(); other synchronisers keep learners "
        "together in every run");
  }
  turns_.Take();
  const auto end_turn = absl::MakeCleanup([this] { turns_.End(); });
  absl::MutexLock lock(&mu_);
  NoteWrites();
  TF_RETURN_IF_ERROR(RestartIfAsked());
  if (merges_ != nullptr) return merges_->Rest(/*wants_merge=*/true);
  const bool merges = synchronisation_ != nullptr &&
                      synchronisation_->adaptive != nullptr &&
                      synchronisation_->adaptive->batches().num_updates() > 0;
  return merges ? MergeModels(/*run=*/nullptr) : absl::OkStatus();
}

absl::Status Trainer::AbandonMegaBatch() {
  TF_ASSIGN_OR_RETURN(const TrainedSet all, LocateAll());
  synchronisation_->adaptive->Abandon(all);
  return absl::OkStatus();
}

std::vector<MegaBatches::Record> Trainer::MegaBatchRecords() {
  absl::MutexLock lock(&mu_);
  if (synchronisation_ == nullptr || synchronisation_->adaptive == nullptr) return {};
  const auto& records = synchronisation_->adaptive->batches().records();
  return {records.begin(), records.end()};
}

}  // namespace tensorbow
