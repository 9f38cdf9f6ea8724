// One learning run on the learners: hands its tasks out, executes them between the
// synchroniser's calls, and keeps what each has computed. Lives as long as the run.
//
// Execute() is called once, by the thread that becomes learner 0; everything else
// before or after it. Owns nothing it is given.
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
#include "cc/program/learning_program.h"
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
  // Called by a learner after its task, before the synchroniser hears of it: tells the
  // trained set where the learner's replica is.
  using AfterTask = std::function<absl::Status(int learner)>;

  // Called when a mega-batch is complete, while no learner is at work: merges.
  using Merge = std::function<absl::Status()>;

  // `plan`: how `feeds` are divided. `batches`: null where tasks are those of the plan;
  // else its rows are cut into batches of the learners' own sizes, which may be done at
  // any time until a merge (mega_batch_merges.cc).
  LearningRun(LearningProgram* program, const std::vector<tensorflow::Tensor>& feeds,
              FeedPlan plan, LearnerGroup* learners, TaskScheduler* scheduler,
              Synchroniser* synchroniser, MegaBatches* batches, ActivityLog* activity,
              tensorflow::CancellationManager* cancellation);

  // Collects the execution times of all kernels.
  void Trace();

  // `timeout_ms`: 0 for none. `merge`: null without `batches`.
  void Execute(SchedulingPolicy policy, int64_t timeout_ms, AfterTask after_task,
               Merge merge);

  // In its place, where what all learners share has no data left: nobody learns.
  void ExecuteWithoutData(const absl::Status& end_of_data);

  // How many learners had tasks: the first so many.
  int num_active() const { return active_; }
  // Iterations that completed.
  int64_t completed() const { return completed_; }
  // The learners that took part in the last of them, ascending.
  std::vector<int> present() const;
  // The learners that had a task, but for those that found no data; ascending.
  std::vector<int> learned() const;
  // Whether a learner's task failed (the end of the data is no failure).
  bool failed() const;
  // Of the run: OK, an error that is the run's, or OutOfRange where no learner found
  // data.
  absl::Status status() const;
  // What the tasks of completed iterations computed, in row order. Empties the run.
  std::vector<TaskOutcome> TakeOutcomes();
  // Learning tasks of completed iterations, and their rows (1 where unknown).
  int64_t NumTasks() const;
  int64_t NumRows() const;
  // The execution times of every learner, on devices "…/learner:<j>".
  void AppendStats(tensorflow::StepStats* stats);

 private:
  bool Completed(int64_t task) const {
    return task_iteration_[task] >= 0 && task_iteration_[task] < completed_;
  }
  bool EndsWithData(const absl::Status& status) const;
  // Has the learners that have tasks execute them, this thread as learner 0.
  void OnLearners(const std::function<void(int learner)>& run);
  // Executes tasks on one learner until the run has none left for it.
  void RunTasks(int learner);
  // `rows`: of the feeds; without them all.
  absl::Status RunTask(int learner, int64_t task,
                       const std::optional<FeedPlan::Rows>& rows);
  // What ends a learner's part in the run.
  void FinishLearner(int learner);
  // In the place of tasks: batches, from one merge to the next.
  void ExecuteBatches(SchedulingPolicy policy, const Merge& merge);
  void RunBatches(int learner);
  // Where learners share an accelerator, learner 0's first task says how much memory
  // one needs, before the others begin.
  absl::Status CheckMemory(int learner, bool first, absl::Status status);
  void Fail(int learner, const absl::Status& status);

  LearningProgram* const program_;
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
