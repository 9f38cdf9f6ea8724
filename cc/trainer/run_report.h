// Reports on a learning run: its marks in the activity log, its metadata.
#ifndef TENSORBOW_CC_TRAINER_RUN_REPORT_H_
#define TENSORBOW_CC_TRAINER_RUN_REPORT_H_

#include "absl/base/thread_annotations.h"
#include "cc/trainer/learning_run.h"
#include "cc/trainer/run.h"
#include "cc/training/training_state.h"

namespace tensorbow {

// Returns whether the caller asks for the execution times of ops.
bool IsTraced(const RunRequest& request);
void RecordRun(TrainingState* state, const Program& program, const LearningRun& run)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mu());
// Appends to the caller's metadata, if any.
void AppendMetadata(const RunRequest& request, LearningRun* run);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINER_RUN_REPORT_H_
