// The state of a session's training: its learners, the algorithm that keeps them
// together, their copies of the variables, and its counters.
//
// One run at a time changes it, which holds a Turn. Whatever needs mu() says so, and
// the rest may be called at any time.
#ifndef TENSORBOW_CC_TRAINING_TRAINING_STATE_H_
#define TENSORBOW_CC_TRAINING_TRAINING_STATE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "cc/activity/activity_log.h"
#include "cc/config/options.h"
#include "cc/device/accelerator.h"
#include "cc/learner/learner_group.h"
#include "cc/program/progress.h"
#include "cc/program/sharing.h"
#include "cc/replicas/variable_table.h"
#include "cc/scheduler/task_scheduler.h"
#include "cc/training/counters.h"
#include "cc/training/run_gate.h"
#include "cc/training/synchronisation.h"
#include "cc/training/write_log.h"
#include "tensorflow/core/public/session.h"

namespace tensorbow {

class TrainingState {
 public:
  // Called with a sentence for the user, at most once per text.
  using Warn = std::function<void(const std::string&)>;

  // `central`: the stock session with the central variables; not owned, outlives
  // Release(). `session_options` and `options` outlive the state. `accelerators`: the
  // devices of learners; null for the CPU.
  TrainingState(const tensorflow::SessionOptions& session_options,
                const Options& options, tensorflow::Session* central,
                tensorflow::Device* central_device, AcceleratorBackend* accelerators,
                Warn warn);
  // Makes the learners. Called once, before anything else.
  absl::Status Start();
  // Ends the learners' threads, deletes their kernels and their variables, while the
  // central session still lives. REQUIRES: no program is left and no run is active.
  void Release() ABSL_LOCKS_EXCLUDED(mu_);

  const tensorflow::SessionOptions& session_options() const { return session_options_; }
  const Options& options() const { return options_; }
  const Warn& warn() const { return warn_; }
  HostRounds* rounds() const { return rounds_.get(); }  // null on one host

  int num_learners() const { return learners_.size(); }  // of this host
  // Returns whether one learner computes what a stock session does.
  bool is_single_learner() const { return num_learners() == 1 && rounds_ == nullptr; }
  // Returns whether learners have variables of their own, beside the central ones.
  bool replicates() const { return !is_single_learner() || learners_.accelerators(); }
  // Returns Unimplemented, for `what`, if other hosts train as well.
  absl::Status OnOneHostOnly(const char* what) const;

  LearnerGroup& learners() { return learners_; }  // changed by SetLayout() only
  RunProgressTable& progress() { return progress_; }
  ActivityLog& activity() { return activity_; }
  TrainingCounters& counters() { return counters_; }
  WriteLog& writes() { return writes_; }
  Sharing& sharing() { return sharing_; }
  RunGate& gate() { return gate_; }
  Choice choice() const ABSL_LOCKS_EXCLUDED(choice_mu_);
  // All replicas ← z, without its momentum, before the next learning run.
  void RequestRestart() { restarts_requested_.fetch_add(1); }

  // --- With the lock.

  absl::Mutex& mu() const ABSL_LOCK_RETURNED(mu_) { return mu_; }
  TaskScheduler* scheduler() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return scheduler_.get();
  }
  // Null before an algorithm has been chosen, as is the table.
  Synchronisation* synchronisation() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return synchronisation_.get();
  }
  Synchroniser* synchroniser() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return synchronisation_->synchroniser.get();
  }
  VariableTable* variables() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return variables_.get();
  }
  bool averages_gradients() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return synchronisation_ != nullptr &&
           synchronisation_->synchroniser->traits().averages_gradients();
  }

  // Makes the algorithm that keeps the learners together, and the table of variables.
  absl::Status SetAlgorithm(const Choice& choice) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ClearAlgorithm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Replaces the learners between two iterations; see Trainer::SetLayout().
  absl::Status SetLayout(const Layout& layout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Marks the variables that central runs have written: replicas start from them.
  void MarkWrites() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gives every learner its own copy of variables that a new program cannot share.
  // Programs that have shared them are to be compiled again.
  absl::Status StopSharing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sets all replicas of all trained variables to z, if that has been requested.
  absl::Status ApplyRestarts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropRestarts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    restarts_made_ = restarts_requested_.load();
  }

 private:
  // The learners' side of all variables.
  struct Replicas;
  // Returns it for so many learners; brings the central variables up to date.
  absl::StatusOr<Replicas> TakeReplicas(int num_learners)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status PutReplicas(const Replicas& replicas) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const tensorflow::SessionOptions& session_options_;
  const Options& options_;
  const Warn warn_;
  const std::unique_ptr<HostRounds> rounds_;

  LearnerGroup learners_;
  RunProgressTable progress_;
  ActivityLog activity_;
  TrainingCounters counters_;
  WriteLog writes_;
  Sharing sharing_;
  RunGate gate_;
  std::atomic<int64_t> restarts_requested_{0};

  mutable absl::Mutex mu_;  // taken inside the gate, or for a moment
  std::unique_ptr<TaskScheduler> scheduler_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Synchronisation> synchronisation_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<VariableTable> variables_ ABSL_GUARDED_BY(mu_);
  int64_t restarts_made_ ABSL_GUARDED_BY(mu_) = 0;

  mutable absl::Mutex choice_mu_ ABSL_ACQUIRED_AFTER(mu_);
  Choice choice_ ABSL_GUARDED_BY(choice_mu_);
};

// The right to change the state: the gate, then the lock.
class ABSL_SCOPED_LOCKABLE Turn {
 public:
  explicit Turn(TrainingState* state) ABSL_EXCLUSIVE_LOCK_FUNCTION(state->mu())
      : state_(state), central_bypasses_(state->gate().Enter()) {
    state_->mu().Lock();
  }
  ~Turn() ABSL_UNLOCK_FUNCTION() {
    state_->mu().Unlock();
    state_->gate().Leave();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // Returns whether central runs go on beside holders that may block.
  bool central_bypasses() const { return central_bypasses_; }

 private:
  TrainingState* const state_;
  const bool central_bypasses_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINING_TRAINING_STATE_H_
