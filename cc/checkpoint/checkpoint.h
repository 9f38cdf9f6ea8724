// Saves the state of a session's training and loads it, so that training goes on bit
// for bit from there. Over several hosts, each has its part.
//
// Thread-safe; waits for the learning run that is under way.
#ifndef TENSORBOW_CC_CHECKPOINT_CHECKPOINT_H_
#define TENSORBOW_CC_CHECKPOINT_CHECKPOINT_H_

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "cc/checkpoint/saved_state.h"
#include "cc/coordination/host_coordinator.h"
#include "cc/training/training_state.h"

namespace tensorbow {

class Checkpoint {
 public:
  // All variables of the graph.
  using Nodes = std::vector<const tensorflow::NodeDef*>;

  // Nothing is owned.
  Checkpoint(TrainingState* state, HostCoordinator* hosts)
      : state_(state), hosts_(hosts) {}

  // Saves the state as `path`. After an error, the former file is as it was.
  absl::Status Save(const Nodes& nodes, const std::string& path)
      ABSL_LOCKS_EXCLUDED(state_->mu());
  // Sets the state saved as `path`, and its number of learners. REQUIRES: no program is
  // being compiled. After an error, the session is as it was.
  absl::Status Load(const Nodes& nodes, const std::string& path)
      ABSL_LOCKS_EXCLUDED(state_->mu());

 private:
  absl::StatusOr<SavedState> Collect(const Nodes& nodes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu());
  // Saves this host's part, if all hosts can save theirs.
  absl::Status SavePart(const SavedState& saved, const std::string& path);
  // Goes back to the save that all hosts have, if this one has a later one.
  absl::Status AgreeOnSave(const std::string& path);
  std::string PathOfHost(const std::string& path) const;
  void WarnOfHiddenRandomOps();

  // Reads a state and checks it, on all hosts.
  absl::StatusOr<SavedState> Read(const VariableNodes& variables,
                                  const std::string& path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu());
  // Checks that the algorithm of a saved state can be chosen, or has been.
  absl::Status CheckChoice(const Choice& saved)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu());
  absl::Status SetLearners(int num_learners)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu());
  absl::Status SetVariables(const VariableNodes& variables, const SavedState& saved)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu());
  absl::Status SetProgress(SavedState saved)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu());

  TrainingState* const state_;
  HostCoordinator* const hosts_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CHECKPOINT_CHECKPOINT_H_
