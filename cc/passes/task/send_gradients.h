// Prepares a program whose gradients are averaged (reduce_gradients.h) for averaging
// them over several hosts as well.
//
// A TensorBowSendGradient sends each gradient as soon as it is computed, while
// back-propagation continues. All tasks use the order of back-propagation: from the
// last layer to the first. Before any update, the TensorBowBeginUpdates waits for the
// other hosts, and the reductions after it return the received values. Pure function.
#ifndef TENSORBOW_CC_PASSES_TASK_SEND_GRADIENTS_H_
#define TENSORBOW_CC_PASSES_TASK_SEND_GRADIENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/graph/task_graph.h"

namespace tensorbow {

struct SentGradient {
  tensorflow::DataType type;
  int64_t size;  // in elements
};

// Inserts the sends; returns the gradients by their numbers, the order in which they
// are sent. `*num_gradients`: the exchanges of a task; one more if learners did not
// wait for each other before updates. InvalidArgument, with the graph unusable, for
// gradients of some rows and of unknown size. REQUIRES: all gradients are averaged
// before updates (Averaging::kBefore).
absl::StatusOr<std::vector<SentGradient>> SendGradients(TaskGraph* task,
                                                        int* num_gradients);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_SEND_GRADIENTS_H_
