// The variables of a task on an accelerator, and the addresses of their values.
//
// A recorded task reads and writes the buffers that its variables had when it was
// recorded. An op may move a variable to another buffer, and so change the address that
// the next task must read: see TaskRecorder. (AssignVariableOp always does, and every
// update does while another tensor shares the buffer.) Owns nothing. Used by the
// learner's thread.
#ifndef TENSORBOW_CC_LEARNER_TASK_VARIABLES_H_
#define TENSORBOW_CC_LEARNER_TASK_VARIABLES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/device/accelerator.h"
#include "cc/graph/task_graph.h"
#include "cc/learner/variable_storage.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

class TaskVariables {
 public:
  using Addresses = std::vector<const void*>;  // by variable; null: it has no value

  // Finds the variables of a task's parts on `accelerator`, which outlives this.
  TaskVariables(const std::vector<TaskPart>& parts, AcceleratorDevice* accelerator);

  // Finds all addresses.
  absl::Status Locate(Addresses* addresses);
  // Returns the name of the first variable whose address differs, or "". `before` and
  // `after`: from Locate().
  std::string Moved(const Addresses& before, const Addresses& after) const;

  // Adds the variables that have moved to `moving`, a flag by variable.
  void AddMoved(const Addresses& before, const Addresses& after,
                std::vector<bool>* moving) const;

  // Holds the buffers of these variables, which ops then replace but do not overwrite.
  absl::Status Hold(const std::vector<bool>& moving,
                    std::vector<tensorflow::Tensor>* held);
  // Enqueues copies of the present values into the held buffers, which become the
  // variables' own again.
  absl::Status MoveBack(const std::vector<tensorflow::Tensor>& held);

  // Copies the values, in the device's order of work.
  absl::Status Save(std::vector<tensorflow::Tensor>* values);
  // Restores the saved values of variables that are no longer at `addresses`.
  absl::Status Restore(const Addresses& addresses,
                       const std::vector<tensorflow::Tensor>& values);

 private:
  absl::Status Open();

  AcceleratorDevice* const accelerator_;
  std::vector<tensorflow::NodeDef> nodes_;
  std::vector<VariableStorage> storages_;  // by node
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_TASK_VARIABLES_H_
