#include "cc/trainer/learning_run.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/support/flush_denormals.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Starts a cancellation when its time is up.
class Deadline {
 public:
  Deadline(int64_t timeout_ms, tf::CancellationManager* cancellation) {
    if (timeout_ms <= 0) return;
    thread_ = std::thread([this, timeout_ms, cancellation] {
      if (over_.WaitForNotificationWithTimeout(absl::Milliseconds(timeout_ms))) return;
      expired_.store(true);
      cancellation->StartCancel();
    });
  }
  ~Deadline() { Stop(); }
  // Returns whether the time was up.
  bool Stop() {
    if (thread_.joinable()) {
      over_.Notify();
      thread_.join();
    }
    return expired_.load();
  }

 private:
  absl::Notification over_;
  std::atomic<bool> expired_{false};
  std::thread thread_;
};

int64_t NumTasksOf(const FeedPlan& plan, int num_learners) {
  if (!plan.tasks.empty()) return static_cast<int64_t>(plan.tasks.size());
  return plan.ambiguous.empty() ? num_learners : 1;
}

// Rows that are cut later may be anybody's.
int NumActiveOf(const FeedPlan& plan, int num_learners, bool cuts_batches) {
  if (cuts_batches && !plan.tasks.empty()) return num_learners;
  return static_cast<int>(
      std::min<int64_t>(NumTasksOf(plan, num_learners), num_learners));
}

// At most; sizes do not fall below b_min.
int64_t NumBatchesOf(const FeedPlan& plan, const MegaBatches& batches) {
  const int64_t rows = plan.tasks.back().end;
  const int64_t merges = rows / batches.least_share() + 2;
  return rows / batches.options().b_min + merges;
}

}  // namespace

LearningRun::LearningRun(Program* program, const std::vector<tf::Tensor>& feeds,
                         FeedPlan plan, LearnerGroup* learners,
                         TaskScheduler* scheduler, Synchroniser* synchroniser,
                         MegaBatches* batches, ActivityLog* activity,
                         tf::CancellationManager* cancellation)
    : program_(program),
      compiled_(program->compiled()),
      feeds_(feeds),
      plan_(std::move(plan)),
      learners_(learners),
      scheduler_(scheduler),
      synchroniser_(synchroniser),
      batches_(batches),
      activity_(activity),
      cancellation_(cancellation),
      num_tasks_(batches == nullptr || plan_.tasks.empty()
                     ? NumTasksOf(plan_, learners->size())
                     : NumBatchesOf(plan_, *batches)),
      active_(NumActiveOf(plan_, learners->size(), batches != nullptr)),
      ends_with_data_(plan_.tasks.empty() && compiled_->replicated),
      measures_memory_(learners->accelerators() != nullptr && learners->size() > 1 &&
                       !program->state.measured_memory),
      outcomes_(num_tasks_),
      task_iteration_(num_tasks_, -1),
      status_(learners->size()) {}

void LearningRun::Trace() {
  for (int j = 0; j < learners_->size(); ++j) {
    stats_.push_back(std::make_unique<tf::StepStats>());
    collectors_.push_back(
        std::make_unique<tf::StepStatsCollector>(stats_.back().get()));
  }
}

void LearningRun::OnLearners(const std::function<void(int learner)>& run) {
  for (int j = 1; j < active_; ++j) {
    (*learners_)[j].worker()->Start([&run, j] { run(j); });
  }
  run(0);
  for (int j = 1; j < active_; ++j) (*learners_)[j].worker()->Wait();
}

void LearningRun::Execute(SchedulingPolicy policy, int64_t timeout_ms,
                          AfterTask after_task, Merge merge) {
  if (cancellation_.IsCancelled()) {
    status_[0] = absl::CancelledError("Run call was cancelled");
    return;
  }
  after_task_ = std::move(after_task);
  for (int j = 0; j < learners_->size(); ++j) {
    synchroniser_->set_activity(j, activity_->learner(j));
  }
  Deadline deadline(timeout_ms, &cancellation_);
  if (batches_ != nullptr) {
    ExecuteBatches(policy, merge);
  } else {
    const bool in_order = plan_.tasks.empty() || plan_.one_shard_per_learner;
    scheduler_->Begin(num_tasks_, in_order ? SchedulingPolicy::kRoundRobin : policy);
    synchroniser_->BeginRun(program_->state.set.get(), scheduler_);
    OnLearners([this](int learner) { RunTasks(learner); });
    completed_ = synchroniser_->EndRun();
  }
  expired_ = deadline.Stop();
}

void LearningRun::ExecuteWithoutData(const absl::Status& end_of_data) {
  scheduler_->Begin(num_tasks_, SchedulingPolicy::kRoundRobin);
  synchroniser_->BeginRun(program_->state.set.get(), scheduler_);
  OnLearners([this, &end_of_data](int learner) {
    scheduler_->Next(learner);
    if (!synchroniser_->pace(learner).BeforeTask()) return;
    status_[learner] = end_of_data;
    synchroniser_->pace(learner).Skip();
  });
  completed_ = synchroniser_->EndRun();
}

// ------------------------------------------------------------------------- tasks

absl::Status LearningRun::RunTask(int learner, int64_t task,
                                  const std::optional<FeedPlan::Rows>& rows) {
  const std::vector<tf::Tensor> feeds = [&] {
    const ScopedActivity feeding(activity_->learner(learner), Activity::kFeed);
    return FeedsOfTask(plan_, rows, feeds_);
  }();
  Learner::Task execution;
  execution.feeds = &feeds;
  // One of its own: the executor cancels it when a kernel fails, which is nobody
  // else's business.
  tf::CancellationManager cancellation(&cancellation_);
  execution.cancellation = &cancellation;
  if (!collectors_.empty()) execution.stats = collectors_[learner].get();
  TaskOutcome& outcome = outcomes_[task];
  outcome.learner = learner;
  if (plan_.one_shard_per_learner && rows.has_value()) {
    // Sizes may differ: the average of gradients is that of all rows.
    const FeedPlan::Rows all = {plan_.tasks.front().begin, plan_.tasks.back().end};
    synchroniser_->pace(learner).SetShare(all.count() == 0
                                              ? 1
                                              : static_cast<double>(rows->count()) *
                                                    num_tasks_ / all.count());
  }
  if (rows.has_value()) {
    outcome.rows = rows->count();
    synchroniser_->pace(learner).RecordRows(outcome.rows);
  } else if (compiled_->rows_fetch < 0) {
    synchroniser_->pace(learner).RecordRows(0);  // nothing tells: it counts as one
  }
  TF_RETURN_IF_ERROR((*learners_)[learner].Execute(
      program_->learners()->Of(learner, feeds), execution, &outcome.fetches));
  if (plan_.tasks.empty() && compiled_->rows_fetch >= 0) {
    const tf::Tensor& data = outcome.fetches[compiled_->rows_fetch];
    outcome.rows = data.dims() > 0 ? data.dim_size(0) : 0;
    synchroniser_->pace(learner).RecordRows(outcome.rows);
  }
  return absl::OkStatus();
}

absl::Status LearningRun::CheckMemory(int learner, bool first, absl::Status status) {
  if (learner != 0 || !first || !measures_memory_) return status;
  if (status.ok()) status = learners_->CheckMemory(learners_->layout().learners);
  program_->state.measured_memory = status.ok();
  measured_.Notify();
  return status;
}

void LearningRun::Fail(int learner, const absl::Status& status) {
  status_[learner] = status;
  synchroniser_->pace(learner).Abort();
  // A sibling may wait for data that now will not come. But a cancelled GetNext would
  // be the end of the shared iterator.
  if (program_->analysis.may_block && !program_->analysis.reads_iterator) {
    cancellation_.StartCancel();
  }
}

void LearningRun::RunTasks(int learner) {
  const ScopedFlushDenormals flush;
  const bool averages_models = synchroniser_->traits().averages_models();
  std::optional<TaskScheduler::Assignment> assignment = scheduler_->Next(learner);
  if (learner > 0 && measures_memory_) measured_.WaitForNotification();
  for (bool first = true;
       assignment.has_value() && !synchroniser_->pace(learner).Aborted();
       first = false) {
    activity_->learner(learner)->BeginTask(NowNanos());
    if (!synchroniser_->pace(learner).BeforeTask()) break;
    if (learner == 0 && !first && averages_models) {
      auto rates = program_->learners()->rates.Evaluate(feeds_, &(*learners_)[0]);
      if (rates.ok()) program_->state.rates.Record(*std::move(rates));
    }
    std::optional<FeedPlan::Rows> rows;
    if (!plan_.tasks.empty()) rows = plan_.tasks[assignment->task];
    absl::Status status =
        CheckMemory(learner, first, RunTask(learner, assignment->task, rows));
    if (EndsWithData(status)) {
      status_[learner] = status;
      synchroniser_->pace(learner).Skip();
      break;
    }
    if (status.ok()) status = after_task_(learner);
    if (!status.ok()) {
      Fail(learner, status);
      break;
    }
    task_iteration_[assignment->task] = assignment->iteration;
    if (!synchroniser_->pace(learner).AfterTask()) break;
    activity_->learner(learner)->EndTask(NowNanos(), assignment->iteration);
    assignment = scheduler_->Next(learner);
  }
  FinishLearner(learner);
}

void LearningRun::FinishLearner(int learner) {
  if (learner == 0 && measures_memory_ && !measured_.HasBeenNotified()) {
    measured_.Notify();
  }
  const absl::Status finished = (*learners_)[learner].Finish();
  if (status_[learner].ok()) status_[learner] = finished;
}

// ----------------------------------------------------------------------- outcome

bool LearningRun::EndsWithData(const absl::Status& status) const {
  return absl::IsOutOfRange(status) && ends_with_data_;
}

int LearningRun::FirstFailed() const {
  int first = -1;
  for (int j = 0; j < active_; ++j) {
    if (status_[j].ok() || EndsWithData(status_[j])) continue;
    if (!absl::IsCancelled(status_[j])) return j;
    if (first < 0) first = j;
  }
  return first;
}

std::vector<int> LearningRun::up_to_date() const {
  if (failed()) return {FirstFailed()};
  std::vector<int> learners;
  for (int64_t task = 0; task < num_tasks_; ++task) {
    if (completed_ > 0 && task_iteration_[task] == completed_ - 1) {
      learners.push_back(outcomes_[task].learner);
    }
  }
  std::sort(learners.begin(), learners.end());
  return learners;
}

std::vector<int> LearningRun::learned() const {
  std::vector<bool> completed(learners_->size());
  for (int64_t task = 0; task < num_tasks_; ++task) {
    if (task_iteration_[task] >= 0) completed[outcomes_[task].learner] = true;
  }
  std::vector<int> learners;
  for (int j = 0; j < active_; ++j) {
    // Rows are cut as learners ask for them: some may have got none.
    const bool had_none = batches_ != nullptr && status_[j].ok();
    if (completed[j] || !(EndsWithData(status_[j]) || had_none)) learners.push_back(j);
  }
  return learners;
}

bool LearningRun::failed() const { return FirstFailed() >= 0; }

absl::Status LearningRun::status() const {
  if (expired_)
    return absl::DeadlineExceededError("Timed out waiting for notification");
  if (failed()) return status_[FirstFailed()];
  const bool any = std::any_of(status_.begin(), status_.begin() + active_,
                               [](const absl::Status& s) { return s.ok(); });
  return any ? absl::OkStatus() : status_[0];
}

std::vector<TaskOutcome> LearningRun::TakeOutcomes() {
  std::vector<TaskOutcome> outcomes;
  for (int64_t task = 0; task < num_tasks_; ++task) {
    if (task_iteration_[task] >= 0) outcomes.push_back(std::move(outcomes_[task]));
  }
  return outcomes;
}

int64_t LearningRun::NumTasks() const {
  int64_t count = 0;
  for (int64_t task = 0; task < num_tasks_; ++task) count += Completed(task);
  return count;
}

int64_t LearningRun::NumRows() const {
  int64_t rows = 0;
  for (int64_t task = 0; task < num_tasks_; ++task) {
    if (Completed(task)) rows += std::max<int64_t>(1, outcomes_[task].rows);
  }
  return rows;
}

const Learner::Program& LearningRun::FirstProgram() const {
  std::optional<FeedPlan::Rows> rows;
  if (!plan_.tasks.empty()) rows = plan_.tasks[0];
  return program_->learners()->Of(0, FeedsOfTask(plan_, rows, feeds_));
}

void LearningRun::AppendStats(tf::StepStats* stats) {
  for (size_t j = 0; j < collectors_.size(); ++j) {
    collectors_[j]->Finalize();
    for (tf::DeviceStepStats& device : *stats_[j]->mutable_dev_stats()) {
      device.set_device(absl::StrCat(device.device(), "/learner:", j));
      stats->add_dev_stats()->Swap(&device);
    }
  }
}

}  // namespace tensorbow
