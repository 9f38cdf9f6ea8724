// Executes the learning runs of one session, one at a time and parallel inside; central
// runs go on beside them. Thread-safe.
#ifndef TENSORBOW_CC_TRAINER_TRAINER_H_
#define TENSORBOW_CC_TRAINER_TRAINER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/checkpoint/checkpoint.h"
#include "cc/coordination/host_coordinator.h"
#include "cc/coordination/replicated_training.h"
#include "cc/trainer/central_gate.h"
#include "cc/trainer/learning_programs.h"
#include "cc/trainer/learning_run.h"
#include "cc/trainer/mega_batch_merges.h"
#include "cc/trainer/metrics.h"
#include "cc/trainer/run.h"
#include "cc/training/training_state.h"

namespace tensorbow {

class Trainer {
 public:
  // See TrainingState.
  Trainer(const tensorflow::SessionOptions& session_options, const Options& options,
          tensorflow::Session* central, tensorflow::Device* central_device,
          AcceleratorBackend* accelerators, TrainingState::Warn warn);
  // Makes the learners. Called once, before anything else.
  absl::Status Start() { return state_.Start(); }
  // Called before the central session is closed; see TrainingState.
  void Release() { state_.Release(); }

  int num_learners() const { return state_.num_learners(); }  // of this host
  bool has_other_hosts() const { return state_.rounds() != nullptr; }
  bool has_elastic_hosts() const { return hosts_->elastic(); }
  std::vector<std::string> LearnerDevices();  // for people
  // Returns the algorithm; none before the first learning run is compiled or a state is
  // loaded.
  Choice choice() const { return state_.choice(); }
  ActivityLog& activity() { return state_.activity(); }
  CentralGate& central() { return central_; }
  Checkpoint& checkpoint() { return checkpoint_; }
  LearningPrograms& programs() { return programs_; }

  // Gives every device so many learners, of so many threads, between two iterations.
  // The central model stays. If models are averaged, all replicas start from it;
  // learners that stay keep their slots and statistics, new ones get learner 0's. Waits
  // for the learning run under way. ResourceExhausted if an accelerator has no memory
  // for them; Unimplemented if the algorithm does not keep several together.
  absl::Status SetLayout(const Layout& layout);
  Layout layout();
  // Returns the layout with the threads that the options ask for.
  absl::StatusOr<Layout> LayoutOf(int learners_per_device) {
    return state_.learners().LayoutOf(learners_per_device);
  }

  absl::StatusOr<RunOutcome> Run(const RunRequest& request);

  // Sets all replicas to z, without its momentum, before the next learning run.
  void Restart() { state_.RequestRestart(); }
  // Counts a learning run that was executed on the central model.
  void CountCentralTask(int64_t rows);
  // Returns the counters of all hosts; waits until these have ended the last iteration.
  HostRounds::Counts counts();
  int64_t iterations() { return counts().iterations; }

  // Takes part in the other hosts' learning runs until the session is closed on all of
  // them. Does nothing if it has never been asked to train.
  void Leave();

  // See mega_batch_merges.h.
  absl::Status FlushMegaBatch() {
    return tensorbow::FlushMegaBatch(&state_, hosts_.get());
  }
  std::vector<MegaBatches::Record> MegaBatchRecords() {
    return tensorbow::MegaBatchRecords(&state_);
  }

  // See metrics.h.
  absl::StatusOr<Metrics> GetMetrics() { return MetricsOf(&state_); }
  absl::StatusOr<tensorflow::Tensor> LearnerValue(const std::string& variable,
                                                  int learner) {
    return tensorbow::LearnerValue(&state_, variable, learner);
  }
  absl::StatusOr<tensorflow::Tensor> CentralValue(const std::string& variable,
                                                  CentralModel::Which which) {
    return tensorbow::CentralValue(&state_, variable, which);
  }

 private:
  // --- The steps of a run.

  // Asks the user's callback, which may use the session, for a restart from z.
  absl::StatusOr<bool> AskForRestart();
  // Returns nothing if learners execute the run.
  std::optional<RunOutcome> Refuse(const RunRequest& request, const FeedPlan& plan,
                                   int planned_for)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu());
  // Brings the replicas to where the next iteration starts. Returns false if a variable
  // has no value yet.
  absl::StatusOr<bool> Prepare(const RunRequest& request, const FeedPlan& plan,
                               bool restart) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu());
  void Execute(const RunRequest& request, LearningRun* run)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu());
  // Counts the run, marks what it changed, undoes what was discarded.
  absl::Status Conclude(Program* program, LearningRun* run)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu());
  absl::Status CollectFetches(const RunRequest& request, LearningRun* run,
                              Executed* outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu());

  TrainingState state_;
  ReplicatedTraining training_;
  const std::unique_ptr<HostCoordinator> hosts_;
  CentralGate central_;
  Checkpoint checkpoint_;
  LearningPrograms programs_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINER_TRAINER_H_
