// Moves the state of random ops out of their kernels, so that a session can save it.
//
// RandomUniform, RandomUniformInt, RandomStandardNormal and TruncatedNormal are
// replaced by their stateless forms, fed by TensorBowReserveRandom, which keeps its
// state with the learner. The numbers are the same. The op that draws keeps its name.
// Pure functions.
#ifndef TENSORBOW_CC_LEARNER_RANDOM_STATE_H_
#define TENSORBOW_CC_LEARNER_RANDOM_STATE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/graph/task_graph.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Replaces the ops in place; nodes are on their devices.
absl::Status ExposeRandomState(tensorflow::Graph* graph);

// Returns the ops of the task, and of the functions it may call, whose random state
// stays in their kernels.
std::vector<std::string> HiddenRandomState(const TaskGraph& task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_RANDOM_STATE_H_
