// A learning run, as the caller of a trainer asks for it, and its outcome.
#ifndef TENSORBOW_CC_TRAINER_RUN_H_
#define TENSORBOW_CC_TRAINER_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "cc/learner/learner_group.h"
#include "cc/program/deferred_fetches.h"
#include "cc/program/program.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace tensorbow {

struct RunRequest {
  Program* program = nullptr;
  const std::vector<tensorflow::Tensor>* feeds = nullptr;
  const tensorflow::RunOptions* run_options = nullptr;
  // The rows of each learning task, in order, if they add up to the rows fed; empty: as
  // the options say.
  std::vector<int64_t> task_rows;
  // The run is fed an element that has been taken. Learner 0 executes it undivided if
  // it has to: TensorFlow's optimiser may have a stock session take another element.
  bool feeds_element = false;
  // Not OK: the data of the run has ended. It learns nothing, and takes part in the
  // iterations of other hosts.
  absl::Status end_of_data;
  tensorflow::CancellationManager* cancellation = nullptr;  // of the session
  tensorflow::RunMetadata* metadata = nullptr;              // may be null
};

// Learners have executed the run.
struct Executed {
  Layout layout;         // of the learners
  int64_t num_rows = 0;  // of completed tasks
  std::vector<tensorflow::Tensor> fetches;
  DeferredRun deferred;         // fetches that the caller computes
  bool on_one_learner = false;  // its feeds could not be divided
};
// Nothing has been executed: the caller runs it on the central model.
struct OnCentral {
  bool uninitialised = false;  // for want of an initial value
};
// Nothing has been executed: the program must be compiled again, for these rows
// (nullopt: by the declarations of the feeds).
struct Stale {
  std::optional<RowsOfRun> rows;
};
// Nothing has been executed: the program must be compiled for tasks of these shapes,
// too.
struct Recurring {
  TaskShapes shapes;
};
// The run has left no trace and must be made again.
struct Again {};

using RunOutcome = std::variant<Executed, OnCentral, Stale, Recurring, Again>;

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINER_RUN_H_
