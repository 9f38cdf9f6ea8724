// Checks of a saved state: a session can load one that was saved with its settings, of
// its graph, for its learners. Errors name the difference and the remedy.
//
// Pure functions: they read no file and change nothing. Thread-safe.
#ifndef TENSORBOW_CC_CHECKPOINT_CHECKS_H_
#define TENSORBOW_CC_CHECKPOINT_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/checkpoint/saved_state.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

// Lists the first few names for a message: "'a', 'b', …".
std::string FirstFew(const std::vector<std::string>& names);

// Checks that the state was saved with the settings of this session.
absl::Status CheckSettings(const SavedState::Settings& saved,
                           const SavedState::Settings& wanted);

// Checks that the state has the variables of this graph, no more and no fewer.
absl::Status CheckNames(const std::vector<std::string>& saved,
                        const VariableNodes& variables);

// Checks that the variable `node` can have this value.
absl::Status CheckValue(const tensorflow::NodeDef& node,
                        const tensorflow::Tensor& value);

// Checks that `learners`, who share a saved value of the variable `name`, are learners
// of this session in ascending order.
absl::Status CheckLearners(const std::string& name,
                           const std::vector<int64_t>& learners, int num_learners);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CHECKPOINT_CHECKS_H_
