// Batch normalisation by the rows of all learners.
#ifndef TENSORBOW_CC_PASSES_TASK_EXCHANGE_MOMENTS_H_
#define TENSORBOW_CC_PASSES_TASK_EXCHANGE_MOMENTS_H_

#include "absl/status/statusor.h"
#include "cc/graph/task_graph.h"

namespace tensorbow {

// Has the fused batch normalisations of TensorFlow, and their gradients, of a task that
// is a learner's part of a batch normalise by the moments of the whole, and learners
// meet where moments are averaged (AverageMoments): in one order for all, before they
// exchange gradients. `*num_exchanges`: of the task; each meeting is one more. `sums`:
// the loss sums over rows. After ReduceGradients().
//
// Returns whether that is so for all of them. Left as they are: all, where one depends
// on an update; those in conditionals and loops, with another layout or type, or that
// average their moments over time by themselves. InvalidArgument where a meeting cannot
// be left out (kMustMeet).
absl::StatusOr<bool> NormaliseTogether(bool sums, TaskGraph* task, int* num_exchanges);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_EXCHANGE_MOMENTS_H_
