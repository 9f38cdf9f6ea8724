// What the caller of a trainer asks for, and what it is told.
#ifndef TENSORBOW_CC_TRAINER_RUN_H_
#define TENSORBOW_CC_TRAINER_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/activity/activity_log.h"
#include "cc/feeds/feeds.h"
#include "cc/learner/learner_group.h"
#include "cc/program/program.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace tensorbow {

// What the caller of a learning run asks for.
struct RunRequest {
  Program* program = nullptr;
  const std::vector<tensorflow::Tensor>* feeds = nullptr;
  const tensorflow::RunOptions* run_options = nullptr;
  // The rows of each learning task, in order, where they add up to the rows fed; empty:
  // as the options say.
  std::vector<int64_t> task_rows;
  // The run is fed an element that has been taken. What is not divided is executed by
  // learner 0: TensorFlow's optimiser may have a stock session take another one.
  bool has_element = false;
  // Not OK: the data of the run has ended. It has nothing to learn from and takes part
  // in what other hosts still learn.
  absl::Status end_of_data;
  tensorflow::CancellationManager* cancellation = nullptr;  // of the session
  tensorflow::RunMetadata* metadata = nullptr;              // may be null
};

// What has become of it.
struct RunOutcome {
  // False: the learners cannot execute the run without guessing, or for want of an
  // initial value. Nothing has been executed; the caller runs it on the central model.
  bool executed = false;
  // What executed it, and the rows that completed tasks used.
  Layout layout;
  int64_t num_rows = 0;
  std::vector<tensorflow::Tensor> fetches;
  bool uninitialised = false;     // for want of an initial value
  bool undivided = false;         // learner 0 has executed all of it
  bool recompile = false;         // the program is to be compiled again; then to be run
  std::optional<RowsOfRun> rows;  // for these rows, then
  bool again = false;             // the run is to be made again: it has left no trace
};

// The decision who executes a run, and why.
struct Explanation {
  FeedPlan plan;
  std::string why_one_learner;  // empty: learners divide its rows
  bool recompile = false;       // the program is to be compiled first
  std::optional<RowsOfRun> rows;
  std::shared_ptr<const RowTypes> types;  // null: rows have none
  bool estimates = false;  // learners estimate values of all rows from their own
};

// How learners fare.
struct Metrics {
  struct Learner {
    int64_t bytes = 0;       // of its allocator, in use
    int64_t peak_bytes = 0;  // the most there were
    double spread = 0;       // ‖w − z‖ / ‖z‖ over all trained variables
  };
  ActivityLog::Figures figures;
  std::vector<Learner> learners;
  int host_chunk = 0;  // gradients that travel together, where there is a number
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINER_RUN_H_
