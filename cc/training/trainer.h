// Executes learning runs: owns the learners, their scheduler, the synchroniser, the
// central model and the replicated variables of one session, and counts what they do.
//
// Thread-safe. One learning run at a time (it is parallel inside); central runs of the
// same session go on beside it and only meet it where they touch replicated variables.
#ifndef TENSORBOW_CC_TRAINING_TRAINER_H_
#define TENSORBOW_CC_TRAINING_TRAINER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "cc/central_model/central_model.h"
#include "cc/device/accelerator.h"
#include "cc/rewrite/program_graph.h"
#include "cc/rewrite/run_analysis.h"
#include "cc/scheduler/task_scheduler.h"
#include "cc/training/feeds.h"
#include "cc/training/fetches.h"
#include "cc/training/learner_group.h"
#include "cc/training/learning_program.h"
#include "cc/training/options.h"
#include "cc/training/replicated_variables.h"
#include "cc/training/run_progress.h"
#include "cc/training/turns.h"
#include "cc/synchroniser/synchroniser.h"
#include "tensorflow/core/public/session.h"

namespace tensorbow {

class Trainer {
 public:
  // Called with a sentence that the user should read, at most once per text.
  using Warn = std::function<void(const std::string&)>;

  // `central`: the stock session that keeps the central variables; not owned, outlives
  // the trainer's Release(). `session_options` and `options` outlive the trainer.
  // `accelerators`: what learners compute on; null for the CPU.
  Trainer(const tensorflow::SessionOptions& session_options, const Options& options,
          tensorflow::Session* central, tensorflow::Device* central_device,
          AcceleratorBackend* accelerators, Warn warn);
  ~Trainer();
  // Makes the learners. Called once, before anything else.
  absl::Status Start();

  int num_learners() const { return learners_.size(); }
  // For people: what each learner computes on.
  std::vector<std::string> LearnerDevices() const { return learners_.Descriptions(); }

  // Waits for no run. Not to be called concurrently.
  absl::Status Compile(const ProgramGraph& graph, const RunSpec& spec,
                       const RunAnalysis& analysis,
                       const std::set<std::string>& sparse_feeds,
                       std::shared_ptr<LearningProgram>* program);

  // Runs `program` on the learners. If that would be a guess (or fail for want of an
  // initial value) nothing is executed and `*central` is set: the caller must run it
  // on the central model.
  absl::Status Run(LearningProgram* program,
                   const std::vector<tensorflow::Tensor>& feeds,
                   const tensorflow::RunOptions& run_options,
                   tensorflow::CancellationManager* cancellation,
                   std::vector<tensorflow::Tensor>* fetches,
                   tensorflow::RunMetadata* metadata, bool* central)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Around a run of the central session: brings the central variables it reaches up
  // to date and, when it writes, finds out what it changed. A writing run excludes
  // learning until it ends, unless it may have to wait for another run.
  //
  // A learning run that waits for data may be waiting for what this run enables (an
  // actor that asks the model and then enqueues): then it goes on beside the learning
  // run, with the central values of that run's beginning.
  class CentralRun {
   public:
    // Begin() and End() are called once each, on the same thread; `analysis` must
    // stay until then.
    absl::Status Begin(Trainer* trainer, const RunAnalysis& analysis);
    absl::Status End();
    ~CentralRun();

   private:
    Trainer* trainer_ = nullptr;
    const RunAnalysis* analysis_ = nullptr;
    void Unlock();

    bool locked_ = false;
    bool unprepared_ = false;  // nothing was published, nothing remembered
    ReplicatedVariables::Snapshot before_;
  };

  // From now on, learning runs that are fed as many rows as these add up to make tasks
  // of these rows, in order. REQUIRES: every count is at least 1.
  void SetTaskRows(std::vector<int64_t> rows) ABSL_LOCKS_EXCLUDED(mu_);

  // Replicas ← z and z_prev ← z before the next run of every program.
  void Restart() { restarts_requested_.fetch_add(1); }

  // Counts a learning run that was executed on the central model.
  void CountCentralTask(int64_t rows);
  int64_t iterations() const { return iterations_.load(); }
  int64_t learning_tasks() const { return learning_tasks_.load(); }
  int64_t samples_seen() const { return samples_seen_.load(); }

  // A copy of learner `learner`'s value of a variable that learning runs have reached;
  // NotFound for any other.
  absl::StatusOr<tensorflow::Tensor> LearnerValue(const std::string& variable,
                                                  int learner) ABSL_LOCKS_EXCLUDED(mu_);

  // A copy of the central value: of its moving average, where there is one and it is
  // asked for.
  absl::StatusOr<tensorflow::Tensor> CentralValue(const std::string& variable,
                                                  CentralModel::Which which)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Saves as `path` all it takes to go on from here bit for bit, and sets it; see
  // session_state.cc. `nodes`: all variables of the graph. After an error, what was
  // saved before, or the state of this session, is as it was.
  absl::Status SaveState(const std::vector<const tensorflow::NodeDef*>& nodes,
                         const std::string& path) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status LoadState(const std::vector<const tensorflow::NodeDef*>& nodes,
                         const std::string& path) ABSL_LOCKS_EXCLUDED(mu_);

  // The first half of destruction, while the central session still lives: ends the
  // learners' threads, deletes their kernels and their variables. REQUIRES: no program
  // is left and no run is active.
  void Release();

 private:
  struct RunState;

  // Runs tasks on one learner until the run has none left for it.
  void RunTasks(int learner, RunState* run);
  absl::Status RunTask(int learner, RunState* run, int64_t task);

  // Brings the replicas to where the next iteration starts; `ready` is false if a
  // variable has no value yet.
  absl::Status PrepareReplicas(LearningProgram* program,
                               const std::vector<tensorflow::Tensor>& feeds,
                               bool* ready) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Variables that central runs wrote while learners were at work: replicas follow.
  void NoteLateWrites() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<bool> RestartIsDue(LearningProgram* program,
                                    const std::vector<tensorflow::Tensor>& feeds);
  // Decides which variables the synchroniser keeps together in runs of `program`: those
  // it writes that some program trains.
  void ChooseTrainedSet(LearningProgram* program) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Tell the trained set where the replicas lie: all of them, between runs; those that
  // `learner`'s task may have moved.
  absl::Status LocateReplicas(LearningProgram* program)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status LocateAfterTask(LearningProgram* program, int learner)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Where all replicas are the same, gives learners that had no task in the last
  // iteration the state of one that had; after a failure, all that of learner 0.
  absl::Status MakeReplicasEqual(LearningProgram* program, const RunState& run)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CollectFetches(const LearningProgram& program,
                              const std::vector<TaskOutcome>& outcomes,
                              std::vector<tensorflow::Tensor>* fetches)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const tensorflow::SessionOptions& session_options_;
  const Options& options_;
  const Warn warn_;

  LearnerGroup learners_;
  CentralModel model_;
  std::unique_ptr<Synchroniser> synchroniser_;
  TaskScheduler scheduler_;

  ProgressOfRuns progress_;

  // Whoever works on replicated variables takes a turn, which comes before mu_.
  Turns turns_;
  absl::Mutex mu_;  // taken by the holder of the turn, or for a moment
  std::unique_ptr<ReplicatedVariables> variables_ ABSL_GUARDED_BY(mu_);
  std::vector<int64_t> task_rows_ ABSL_GUARDED_BY(mu_);
  std::atomic<int64_t> restarts_requested_{0};

  // Variables that central runs wrote while learners were at work.
  absl::Mutex late_writes_mu_ ABSL_ACQUIRED_AFTER(mu_);
  std::vector<std::string> late_writes_ ABSL_GUARDED_BY(late_writes_mu_);

  std::atomic<int64_t> iterations_{0};
  std::atomic<int64_t> learning_tasks_{0};
  std::atomic<int64_t> samples_seen_{0};
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINING_TRAINER_H_
