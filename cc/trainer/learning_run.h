// One learning run on the learners. Hands out its tasks, executes them between the
// synchroniser's calls, and keeps their results.
//
// Execute() is called once, by the thread that becomes learner 0; everything else
// before or after it. Nothing is owned.
#ifndef TENSORBOW_CC_TRAINER_LEARNING_RUN_H_
#define TENSORBOW_CC_TRAINER_LEARNING_RUN_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "cc/activity/activity_log.h"
#include "cc/feeds/feeds.h"
#include "cc/feeds/fetches.h"
#include "cc/learner/learner_group.h"
#include "cc/program/program.h"
#include "cc/scheduler/row_cutter.h"
#include "cc/scheduler/task_scheduler.h"
#include "cc/synchroniser/algorithms/mega_batches.h"
#include "cc/synchroniser/synchroniser.h"
#include "tensorflow/core/common_runtime/step_stats_collector.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace tensorbow {

class LearningRun {
 public:
  // Called by a learner after its task, before the synchroniser's AfterTask(): sets the
  // buffers of its replicas in the trained set.
  using AfterTask = std::function<absl::Status(int learner)>;

  // Called when a mega-batch is complete, while no learner works: merges the models.
  using Merge = std::function<absl::Status()>;

  // `plan`: the division of `feeds`. `batches`: null if tasks are those of the plan;
  // else its rows are cut into batches of the learners' own sizes
  // (mega_batch_merges.h).
  LearningRun(Program* program, const std::vector<tensorflow::Tensor>& feeds,
              FeedPlan plan, LearnerGroup* learners, TaskScheduler* scheduler,
              Synchroniser* synchroniser, MegaBatches* batches, ActivityLog* activity,
              tensorflow::CancellationManager* cancellation);

  // Collects the execution times of all kernels.
  void Trace();

  // `timeout_ms`: 0 for none. `merge`: null without `batches`.
  void Execute(SchedulingPolicy policy, int64_t timeout_ms, AfterTask after_task,
               Merge merge);

  // Called instead of Execute() if the shared data has ended: nobody learns.
  void ExecuteWithoutData(const absl::Status& end_of_data);

  // Returns the number of learners with tasks: the first ones.
  int num_active() const { return active_; }
  // Returns the number of completed iterations.
  int64_t completed() const { return completed_; }
  // Returns the learners whose replicas are the model where gradients are averaged,
  // ascending: the participants of the last iteration or, after a failure, the learner
  // that failed. It has written what a stock session would have.
  std::vector<int> up_to_date() const;
  // Returns the learners that had a task and found data, ascending.
  std::vector<int> learned() const;
  // Returns whether a learner's task failed (the end of the data is no failure).
  bool failed() const;
  // Returns the status of the run; OutOfRange if no learner found data.
  absl::Status status() const;
  // Returns the results of completed iterations' tasks, in row order. Called once.
  std::vector<TaskOutcome> TakeOutcomes();
  // Return the learning tasks of completed iterations, and their rows (1 if unknown).
  int64_t NumTasks() const;
  int64_t NumRows() const;
  // Appends the execution times of every learner, on devices "…/learner:<j>".
  void AppendStats(tensorflow::StepStats* stats);
  // Returns the executable of the first task.
  const Learner::Program& FirstProgram() const;

 private:
  bool Completed(int64_t task) const {
    return task_iteration_[task] >= 0 && task_iteration_[task] < completed_;
  }
  bool EndsWithData(const absl::Status& status) const;
  // Returns the first learner that failed, if possible not because another one did; -1
  // if there is none.
  int FirstFailed() const;
  // Calls `run` for each learner with tasks, on this thread for learner 0.
  void OnLearners(const std::function<void(int learner)>& run);
  // Executes tasks on one learner until the run has none left for it.
  void RunTasks(int learner);
  // `rows`: the task's rows of the feeds; nullopt: all.
  absl::Status RunTask(int learner, int64_t task,
                       const std::optional<FeedPlan::Rows>& rows);
  // Ends a learner's part in the run.
  void FinishLearner(int learner);
  // Executes batches instead of tasks, from one merge to the next.
  void ExecuteBatches(SchedulingPolicy policy, const Merge& merge);
  void RunBatches(int learner);
  // Checks that all learners fit on a shared accelerator, after learner 0's first task,
  // which measures one learner's memory.
  absl::Status CheckMemory(int learner, bool first, absl::Status status);
  void Fail(int learner, const absl::Status& status);

  Program* const program_;
  const std::shared_ptr<const CompiledProgram> compiled_;
  const std::vector<tensorflow::Tensor>& feeds_;
  const FeedPlan plan_;
  LearnerGroup* const learners_;
  TaskScheduler* const scheduler_;
  Synchroniser* const synchroniser_;
  MegaBatches* const batches_;  // null where there are none
  ActivityLog* const activity_;
  tensorflow::CancellationManager cancellation_;
  AfterTask after_task_;

  const int64_t num_tasks_;
  const int active_;            // learners that have tasks
  const bool ends_with_data_;   // OutOfRange is the end of the data, not an error
  const bool measures_memory_;  // learner 0 does its first task alone
  absl::Notification measured_;
  RowCutter cutter_;  // of batches

  std::vector<TaskOutcome> outcomes_;    // by task; fetches are empty where none
  std::vector<int64_t> task_iteration_;  // by task
  std::vector<absl::Status> status_;     // by learner
  bool expired_ = false;
  int64_t completed_ = 0;
  std::vector<std::unique_ptr<tensorflow::StepStats>> stats_;  // by learner, if traced
  std::vector<std::unique_ptr<tensorflow::StepStatsCollector>> collectors_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINER_LEARNING_RUN_H_
