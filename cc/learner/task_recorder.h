// Records a learning task's work on an accelerator once and then replays it (on a GPU:
// a CUDA graph), so that the host need not issue every kernel.
//
// A task can be recorded if all of it is on the accelerator. Its shapes must not depend
// on values, and nothing on the host may change from task to task. The first task is
// executed as usual, which shows the variables that it moves. All tasks of a recorder
// have the same shapes: other ones have executed them before, so that kernels have been
// chosen and compiled.
//
// A recording reads and writes its variables at their recorded addresses. The recorder
// compares them before every replay and drops the recording if a variable has moved,
// for whatever reason. A variable that the task itself moves, as AssignVariableOp does,
// is copied back to its recorded buffer at the end of the recording. If a recording
// fails, the variables are restored and the task is executed as usual. The program is
// recorded again a few times, unless an op cannot be recorded at all.
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

  // The limit of failed recordings.
  static constexpr int kAttempts = 3;
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
  // Executes a task and finds the variables that it moves.
  absl::Status WarmUp(const Tensors& feeds, const Execute& execute, Tensors* fetches);
  // Enqueues the task and the copies of moved variables to their buffers.
  absl::Status Enqueue(const Tensors& feeds, const Execute& execute, Tensors* fetches);
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
  bool warm_ = false;         // a task has been executed
  std::vector<bool> moving_;  // by variable: tasks move it
  int failed_ = 0;
  int forgotten_ = 0;

  std::unique_ptr<AcceleratorDevice::Recording> recording_;
  TaskVariables::Addresses addresses_;  // of the variables, as recorded
  Tensors feeds_;                       // at the addresses that the recording reads
  Tensors fetches_;                     // at the addresses that it writes
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_TASK_RECORDER_H_
