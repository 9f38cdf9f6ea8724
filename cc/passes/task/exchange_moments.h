// Batch normalisation by the rows of all learners.
#ifndef TENSORBOW_CC_PASSES_TASK_EXCHANGE_MOMENTS_H_
#define TENSORBOW_CC_PASSES_TASK_EXCHANGE_MOMENTS_H_

#include "absl/status/statusor.h"
#include "cc/graph/task_graph.h"

namespace tensorbow {

// Orders the exchanges of a task that is a learner's part of a batch
// (insert_exchanges.h): one order for all learners, before they average gradients, or
// between updates and the gradients that follow from them.
// Makes TensorFlow's fused batch normalisations, and their gradients, exchange moments.
// `*num_exchanges`: of the task. REQUIRES: ReduceGradients() has been called.
//
// InvalidArgument if learners cannot exchange a value: in a conditional or a loop, or
// in a normalisation of another layout or type.
absl::Status ExchangeMoments(TaskGraph* task, int* num_exchanges);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_EXCHANGE_MOMENTS_H_
