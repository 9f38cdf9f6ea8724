// The variables that a program trains, and their replicas: what the synchroniser keeps
// together in its runs. Called with the state's lock.
#ifndef TENSORBOW_CC_TRAINING_TRAINED_SETS_H_
#define TENSORBOW_CC_TRAINING_TRAINED_SETS_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/program/program.h"
#include "cc/replicas/variable_table.h"
#include "cc/synchroniser/trained_set.h"
#include "cc/training/training_state.h"

namespace tensorbow {

// Copies values that central runs have written to the replicas, after `agree`, if any,
// has set them. Returns false if a variable has no value yet.
absl::StatusOr<bool> BroadcastWrites(TrainingState* state, Program* program,
                                     const VariableTable::Agreement& agree)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mu());

// Chooses the variables that the synchroniser keeps together in runs of `program`:
// those it writes that some program trains.
void ChooseTrainedSet(TrainingState* state, Program* program)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mu());

// Tells the set where all its replicas lie, between runs.
absl::Status LocateReplicas(TrainingState* state, const std::vector<int>& ids,
                            TrainedSet* set) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mu());
// Tells the program's set where `learner`'s replicas lie after its task.
absl::Status LocateAfterTask(TrainingState* state, Program* program, int learner)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mu());
// Returns the replicas of all trained variables. The central values will be out of
// date.
absl::StatusOr<TrainedSet> LocateAll(TrainingState* state)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mu());

// Resets the variables that idle learners only read to z. `active`: learners with
// tasks.
absl::Status ResetUntrainedReads(TrainingState* state, Program* program, int active)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mu());
// Copies the variables that the program writes from one of the `up_to_date` learners to
// the others.
absl::Status MakeReplicasEqual(TrainingState* state, Program* program,
                               const std::vector<int>& up_to_date)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mu());

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINING_TRAINED_SETS_H_
