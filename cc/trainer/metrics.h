// Figures of a session's learners.
#ifndef TENSORBOW_CC_TRAINER_METRICS_H_
#define TENSORBOW_CC_TRAINER_METRICS_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "cc/activity/activity_log.h"
#include "cc/training/training_state.h"

namespace tensorbow {

struct Metrics {
  struct Learner {
    int64_t bytes = 0;       // of its allocator, in use
    int64_t peak_bytes = 0;  // the largest number so far
    double spread = 0;       // ‖w − z‖ / ‖z‖ over all trained variables
  };
  ActivityLog::Figures figures;
  std::vector<Learner> learners;
  int host_chunk = 0;  // gradients in one message between hosts; 0: not applicable
};

absl::StatusOr<Metrics> MetricsOf(TrainingState* state)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mu());

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINER_METRICS_H_
