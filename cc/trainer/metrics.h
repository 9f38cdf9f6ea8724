// Figures of a session's learners, and values of their variables.
#ifndef TENSORBOW_CC_TRAINER_METRICS_H_
#define TENSORBOW_CC_TRAINER_METRICS_H_

#include <cstdint>
#include <string>
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

// Waits for the learning run under way.
absl::StatusOr<Metrics> MetricsOf(TrainingState* state)
    ABSL_LOCKS_EXCLUDED(state->mu());
// Return a copy of a learner's value of a variable, or of the central one. NotFound
// before learning runs have reached it.
absl::StatusOr<tensorflow::Tensor> LearnerValue(TrainingState* state,
                                                const std::string& variable,
                                                int learner)
    ABSL_LOCKS_EXCLUDED(state->mu());
absl::StatusOr<tensorflow::Tensor> CentralValue(TrainingState* state,
                                                const std::string& variable,
                                                CentralModel::Which which)
    ABSL_LOCKS_EXCLUDED(state->mu());

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINER_METRICS_H_
