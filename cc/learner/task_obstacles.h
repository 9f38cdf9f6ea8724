// Finds, before a task is executed, the reason why it cannot be recorded. Pure
// functions.
//
// RecordedOps and TaskRecorder find other reasons while recording.
#ifndef TENSORBOW_CC_LEARNER_TASK_OBSTACLES_H_
#define TENSORBOW_CC_LEARNER_TASK_OBSTACLES_H_

#include <string>
#include <vector>

#include "cc/graph/task_graph.h"

namespace tensorbow {

// Returns the reason why a task of these parts (the CPU's first) cannot be recorded,
// with the name of the op; empty if the graph shows none. `accelerator`: the name of
// the device.
std::string ObstacleToRecording(const std::vector<TaskPart>& parts,
                                const std::string& accelerator);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_TASK_OBSTACLES_H_
