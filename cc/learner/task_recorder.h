// Records a learning task's work on an accelerator once and then replays it (on a GPU:
// a CUDA graph), so that the host need not issue every kernel.
//
// A task can be recorded if all of it is on the accelerator. Its shapes must not depend
// on values, and nothing on the host may change from task to task. The first few tasks
// are executed as usual, so that kernels have been chosen and compiled. Tasks with
// other shapes than the recorded one are executed as usual, too.
//
// A recording reads and writes its variables at their recorded addresses. The recorder
// compares them before every replay and drops the recording if a variable has moved,
// for whatever reason. A task that moves its variables itself is never replayed. If a
// recording fails, the variables are restored and the task is executed as usual. The
// program is not recorded again.
//
// Owned by the learner's program; used by the learner's thread.
#ifndef TENSORBOW_CC_LEARNER_TASK_RECORDER_H_
#define TENSORBOW_CC_LEARNER_TASK_RECORDER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/device/accelerator.h"
#include "cc/learner/task_variables.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

class TaskRecorder {
 public:
  using Tensors = std::vector<tensorflow::Tensor>;
  // Executes the task with these feeds, all of them on the accelerator.
  using Execute = std::function<absl::Status(const Tensors& feeds, Tensors* fetches)>;

  // The tasks executed before one is recorded, none of which moves a variable. After as
  // many in a row that move one, the program is not recorded.
  static constexpr int kWarmUpTasks = 3;
  // The limit of recordings dropped because a variable has moved. Then the program is
  // not recorded again: it costs more than it saves.
  static constexpr int kForgottenRecordings = 8;

  // `accelerator` is not owned. `obstacle`: from ObstacleToRecording(). `refused` is
  // called once with it, or with another reason that prevents recording.
  TaskRecorder(AcceleratorDevice* accelerator, TaskVariables variables,
               std::string obstacle, std::function<void(const std::string&)> refused);
  ~TaskRecorder();

  // Executes or replays a task. `generation`: changes when a recording has become
  // invalid for another reason than moved variables.
  absl::Status Run(const Tensors& feeds, int64_t generation, const Execute& execute,
                   Tensors* fetches);

 private:
  struct Kind {
    tensorflow::DataType dtype;
    tensorflow::TensorShape shape;
  };

  bool Fits(const Tensors& feeds) const;
  // Executes a task and checks whether it moves its variables.
  absl::Status WarmUp(const Tensors& feeds, const Execute& execute, Tensors* fetches);
  // Records the task; on errors, restores the variables.
  absl::Status Record(const Tensors& feeds, const Execute& execute);
  absl::Status Replay(const Tensors& feeds);
  // Enqueues the waits of the task's updates, so that they are not recorded.
  absl::Status EnterAll(bool updated);
  void Forget();
  void Refuse(const std::string& why);

  AcceleratorDevice* const accelerator_;
  TaskVariables variables_;
  std::string obstacle_;
  const std::function<void(const std::string&)> refused_;
  int64_t generation_ = -1;
  std::vector<Kind> kinds_;  // of the feeds of tasks that are, or will be, recorded
  int executed_ = 0;         // in a row, without moving a variable
  int moving_ = 0;           // in a row, while moving one
  int forgotten_ = 0;

  std::unique_ptr<AcceleratorDevice::Recording> recording_;
  TaskVariables::Addresses addresses_;  // of the variables, as recorded
  Tensors feeds_;                       // at the addresses that the recording reads
  Tensors fetches_;                     // at the addresses that it writes
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_TASK_RECORDER_H_
