// The beginning and the end of mega-batches, for Adaptive SGD
// (cc/synchroniser/algorithms/adaptive.h).
#ifndef TENSORBOW_CC_TRAINER_MEGA_BATCH_MERGES_H_
#define TENSORBOW_CC_TRAINER_MEGA_BATCH_MERGES_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "cc/coordination/host_coordinator.h"
#include "cc/feeds/feeds.h"
#include "cc/synchroniser/algorithms/mega_batches.h"
#include "cc/training/training_state.h"

namespace tensorbow {

// Begins the batches of a run. Returns what cuts its rows; null if tasks are those of
// the plan.
MegaBatches* BeginBatches(TrainingState* state, const FeedPlan& plan)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mu());

// Merges the models after a complete mega-batch. `run`: under way, with its pending
// counters.
absl::Status MergeModels(TrainingState* state, HostCoordinator* hosts,
                         const HostRun& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mu());
// Merges what is left of the mega-batch, on all hosts together. FailedPrecondition if
// there are no mega-batches.
absl::Status FlushMegaBatch(TrainingState* state, HostCoordinator* hosts)
    ABSL_LOCKS_EXCLUDED(state->mu());
// Discards the mega-batch: all replicas ← the last merge.
absl::Status AbandonMegaBatch(TrainingState* state)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mu());

// Returns the last mega-batches, oldest first.
std::vector<MegaBatches::Record> MegaBatchRecords(TrainingState* state)
    ABSL_LOCKS_EXCLUDED(state->mu());

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINER_MEGA_BATCH_MERGES_H_
