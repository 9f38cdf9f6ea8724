// Records a learning task's work on an accelerator once and replays it from then on
// (on a GPU: a CUDA graph), which spares the host the issuing of every kernel.
//
// A task can be recorded if all of it is on the accelerator, with shapes that do not
// depend on values and nothing on the host that changes from task to task. The first
// few tasks are executed as usual, so that kernels have been chosen and compiled.
// Tasks with other shapes than the recorded one are executed as usual, too.
// Thread-compatible.
#ifndef TENSORBOW_CC_LEARNER_TASK_RECORDER_H_
#define TENSORBOW_CC_LEARNER_TASK_RECORDER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/device/accelerator.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Why a task of these parts (the CPU's first) cannot be recorded, naming the op; empty
// if nothing is known to speak against it. `accelerator`: the name of the device.
std::string ObstacleToRecording(
    const std::vector<std::unique_ptr<tensorflow::Graph>>& parts,
    const std::string& accelerator);

class TaskRecorder {
 public:
  using Tensors = std::vector<tensorflow::Tensor>;
  // Executes the task with these feeds, all of them on the accelerator.
  using Execute = std::function<absl::Status(const Tensors& feeds, Tensors* fetches)>;

  // Tasks that are executed before one is recorded.
  static constexpr int kWarmUpTasks = 3;

  // `accelerator` is not owned. `obstacle` as above; `refused` is called with it, or
  // with what else turns out to prevent recording, once.
  TaskRecorder(AcceleratorDevice* accelerator, std::string obstacle,
               std::function<void(const std::string&)> refused);

  // Executes or replays a task. `generation`: changes when variables have moved, which
  // makes a recording useless.
  absl::Status Run(const Tensors& feeds, int64_t generation, const Execute& execute,
                   Tensors* fetches);

 private:
  bool Fits(const Tensors& feeds, int64_t generation) const;
  absl::Status Record(const Tensors& feeds, const Execute& execute);
  absl::Status Replay(const Tensors& feeds);
  void Refuse(const std::string& why);

  AcceleratorDevice* const accelerator_;
  std::string obstacle_;
  const std::function<void(const std::string&)> refused_;
  int executed_ = 0;  // since there was something new

  std::unique_ptr<AcceleratorDevice::Recording> recording_;
  int64_t generation_ = -1;
  Tensors feeds_;    // at the addresses that the recording reads
  Tensors fetches_;  // at those it writes
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_TASK_RECORDER_H_
