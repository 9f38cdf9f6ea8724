// The state that a session saves to go on from it bit for bit, and its form on disk
// (state_file.h):
//
//   <name>                                    of every variable of the graph its
//                                             central value, as Saver writes it
//   _tensorbow/format, settings, choice, counters     what it is; see saved_state.cc
//   _tensorbow/learner/<j>/variable/<name>    learner j's replica
//   _tensorbow/learner/<j>/random_*           its streams of random numbers
//   _tensorbow/z/<name>, previous/<name>      flat, in the accumulation type
//   _tensorbow/average/<name>                 the moving average of z, likewise
//   _tensorbow/run*                           each learning run's progress
//   _tensorbow/mega_batch                     how far it has come, where there are some
//
// No node can have such a name. Thread-compatible.
#ifndef TENSORBOW_CC_CHECKPOINT_SAVED_STATE_H_
#define TENSORBOW_CC_CHECKPOINT_SAVED_STATE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/program/progress.h"
#include "cc/replicas/variable_table.h"
#include "cc/support/random_streams.h"
#include "cc/training/synchronisation.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

// The variables of a graph, by name.
using VariableNodes = std::map<std::string, const tensorflow::NodeDef*>;

struct SavedState {
  // The settings that a session must share with the state: names and values, in the
  // user's words.
  using Settings = std::vector<std::pair<std::string, std::string>>;

  Settings settings;
  int num_learners = 1;
  Choice choice;
  int64_t iterations = 0;
  int64_t learning_tasks = 0;
  int64_t samples_seen = 0;
  std::vector<std::string> variables;                 // names, all
  std::map<std::string, tensorflow::Tensor> central;  // of those that have a value
  std::vector<ReplicaState> replicated;
  std::vector<std::map<std::string, RandomStreams::Position>> random;  // by learner
  std::map<std::string, RunProgress> progress;                         // by run
  std::vector<int64_t> mega_batch;  // MegaBatches::Get(), empty where there are none
};

// Makes it the current state of `path`. After an error, what was saved before is as it
// was.
absl::Status WriteState(const SavedState& state, const std::string& path);
// Makes this host's part of a state the current one, as save number `last` + 1.
// `agree` is called with the status of writing it, when it is on the disk. The state
// becomes the current one if `agree` returns OK.
using AgreeOnSaving = std::function<absl::Status(const absl::Status& written)>;
absl::Status WritePart(const SavedState& state, const std::string& path, int64_t last,
                       const AgreeOnSaving& agree);

// Reads a state for a session with these variables and, with as many learners as it was
// saved with, these settings; checks that it is one (checks.h).
absl::StatusOr<SavedState> ReadState(
    const std::string& path,
    const std::function<SavedState::Settings(int num_learners)>& settings,
    const VariableNodes& variables);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CHECKPOINT_SAVED_STATE_H_
