// Tells, before a task is executed, why it cannot be recorded. Pure functions.
//
// What cannot be seen in the graph is found while recording: RecordedOps, TaskRecorder.
#ifndef TENSORBOW_CC_LEARNER_TASK_OBSTACLES_H_
#define TENSORBOW_CC_LEARNER_TASK_OBSTACLES_H_

#include <memory>
#include <string>
#include <vector>

#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Returns why a task of these parts (the CPU's first) cannot be recorded, naming the
// op; empty if the graph shows no reason. `accelerator`: the name of the device.
std::string ObstacleToRecording(
    const std::vector<std::unique_ptr<tensorflow::Graph>>& parts,
    const std::string& accelerator);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_TASK_OBSTACLES_H_
