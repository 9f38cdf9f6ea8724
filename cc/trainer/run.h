// A learning run, as the caller of a trainer asks for it, and its outcome.
#ifndef TENSORBOW_CC_TRAINER_RUN_H_
#define TENSORBOW_CC_TRAINER_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/learner/learner_group.h"
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
  bool has_element = false;
  // Not OK: the data of the run has ended. It learns nothing, and takes part in the
  // iterations of other hosts.
  absl::Status end_of_data;
  tensorflow::CancellationManager* cancellation = nullptr;  // of the session
  tensorflow::RunMetadata* metadata = nullptr;              // may be null
};

struct RunOutcome {
  // False: learners cannot execute the run without guessing, or for want of an initial
  // value. Nothing has been executed; the caller runs it on the central model.
  bool executed = false;
  // The layout that executed it, and the rows of its completed tasks.
  Layout layout;
  int64_t num_rows = 0;
  std::vector<tensorflow::Tensor> fetches;
  bool uninitialised = false;  // for want of an initial value
  bool undivided = false;      // learner 0 has executed all of it
  bool recompile = false;      // the program must be compiled again, and the run made
  std::optional<RowsOfRun> rows;  // to compile it for
  bool again = false;             // the run has left no trace and must be made again
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINER_RUN_H_
