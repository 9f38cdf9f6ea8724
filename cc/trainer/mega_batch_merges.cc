#include "cc/trainer/mega_batch_merges.h"

#include <utility>

#include "cc/training/trained_sets.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace {

absl::Status MergeOnThisHost(TrainingState* state)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mu()) {
  TF_ASSIGN_OR_RETURN(const TrainedSet all, LocateAll(state));
  Adaptive* const adaptive = state->synchronisation()->adaptive;
  adaptive->Merge(all, adaptive->AreSmall(all));
  return absl::OkStatus();
}

}  // namespace

MegaBatches* BeginBatches(TrainingState* state, const FeedPlan& plan) {
  Adaptive* const adaptive = state->synchronisation()->adaptive;
  if (adaptive == nullptr) return nullptr;
  const int64_t rows = plan.tasks.empty() ? 0 : plan.tasks.back().end;
  MegaBatches* const batches = &adaptive->batches();
  // The rows of a pipeline's elements are not known before.
  batches->Begin(rows > 0 ? rows : state->num_learners());
  if (plan.tasks.size() == 1) {
    state->warn()(
        "AdaptiveSGD: a learning run was fed no more rows than one learner's batch "
        "has: "
        "one learner trains and the others have nothing to do. Feed several batches "
        "for "
        "each learner in one run, best a whole mega-batch, or give a smaller b_max.");
  }
  return batches;
}

absl::Status MergeModels(TrainingState* state, HostCoordinator* hosts,
                         const HostRun& run) {
  const ScopedMark marked(&state->activity(), "merge");
  TF_ASSIGN_OR_RETURN(const bool merged, hosts->Merge(run));
  return merged ? absl::OkStatus() : MergeOnThisHost(state);
}

absl::Status FlushMegaBatch(TrainingState* state, HostCoordinator* hosts) {
  if (state->options().algorithm != Options::Algorithm::kAdaptive) {
    return absl::FailedPreconditionError(
        "merge() is for sessions with AdaptiveSGD(); other synchronisers keep learners "
        "together in every run");
  }
  const Turn turn(state);
  state->MarkWrites();
  TF_RETURN_IF_ERROR(state->ApplyRestarts());
  TF_ASSIGN_OR_RETURN(const bool merged, hosts->FlushMegaBatch());
  if (merged) return absl::OkStatus();
  const Synchronisation* const synchronisation = state->synchronisation();
  const bool merges = synchronisation != nullptr &&
                      synchronisation->adaptive != nullptr &&
                      synchronisation->adaptive->batches().num_updates() > 0;
  if (!merges) return absl::OkStatus();
  const ScopedMark marked(&state->activity(), "merge");
  return MergeOnThisHost(state);
}

absl::Status AbandonMegaBatch(TrainingState* state) {
  TF_ASSIGN_OR_RETURN(const TrainedSet all, LocateAll(state));
  state->synchronisation()->adaptive->Abandon(all);
  return absl::OkStatus();
}

std::vector<MegaBatches::Record> MegaBatchRecords(TrainingState* state) {
  absl::MutexLock lock(&state->mu());
  const Synchronisation* const synchronisation = state->synchronisation();
  if (synchronisation == nullptr || synchronisation->adaptive == nullptr) return {};
  const auto& records = synchronisation->adaptive->batches().records();
  return {records.begin(), records.end()};
}

}  // namespace tensorbow
