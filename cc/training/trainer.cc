#include "cc/training/trainer.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "cc/synchroniser/independent.h"
#include "cc/synchroniser/sma.h"
#include "cc/synchroniser/ssgd.h"
#include "tensorflow/core/common_runtime/step_stats_collector.h"

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

absl::StatusOr<std::unique_ptr<Synchroniser>> MakeSynchroniser(
    const Options& options, const LearnerGroup& learners, CentralModel* model) {
  using Algorithm = Options::Algorithm;
  AcceleratorBackend* const accelerators = learners.accelerators();
  const int count = learners.size();
  const double alpha = options.alpha > 0 ? options.alpha : 1.0 / count;
  if (count == 1 || options.algorithm == Algorithm::kIndependent) {
    return std::make_unique<Independent>(count, model, learners.spin());
  }
  if (options.algorithm == Algorithm::kSma) {
    if (accelerators == nullptr) {
      return std::make_unique<Sma>(count, model, learners.spin(), alpha,
                                   options.sync_period);
    }
    std::vector<AcceleratorDevice*> devices;
    for (int j = 0; j < count; ++j) devices.push_back(learners[j].accelerator());
    return accelerators->NewSma(devices, model, learners.spin(), alpha,
                                options.sync_period);
  }
  if (accelerators == nullptr) {
    return std::make_unique<Ssgd>(count, model, learners.spin());
  }
  return absl::UnimplementedError(absl::StrCat(
      "Got the synchroniser SSGD for learners on ", accelerators->type(),
      "s, where averaging gradients is not implemented. Use tensorbow.SMA(), or keep "
      "the session off them: ConfigProto(device_count={'",
      accelerators->type(), "': 0})"));
}

}  // namespace

struct Trainer::RunState {
  LearningProgram* program = nullptr;
  const std::vector<tf::Tensor>* feeds = nullptr;
  FeedPlan plan;
  bool ends_with_data = false;   // OutOfRange is the end of the data, not an error
  bool measures_memory = false;  // learner 0 does its first task alone
  absl::Notification measured;
  tf::CancellationManager* cancellation = nullptr;

  std::vector<TaskOutcome> outcomes;    // by task; fetches are empty where none
  std::vector<int64_t> task_iteration;  // by task
  std::vector<absl::Status> status;     // by learner
  std::vector<std::unique_ptr<tf::StepStats>> stats;  // by learner, when tracing
  std::vector<std::unique_ptr<tf::StepStatsCollector>> collectors;
};

Trainer::Trainer(const tf::SessionOptions& session_options, const Options& options,
                 tf::Session* central, tf::Device* central_device,
                 AcceleratorBackend* accelerators, Warn warn)
    : session_options_(session_options),
      options_(options),
      warn_(std::move(warn)),
      learners_(session_options, options, central, central_device, accelerators,
                [this](const std::string& why) {
                  warn_(absl::StrCat(
                      "cuda_graphs=\"on\": learning tasks are executed op by op, "
                      "because ",
                      why));
                }),
      model_(options.ema_decay),
      scheduler_(learners_.size()) {}

Trainer::~Trainer() = default;

absl::Status Trainer::Start() {
  TF_RETURN_IF_ERROR(learners_.Start());
  TF_ASSIGN_OR_RETURN(synchroniser_, MakeSynchroniser(options_, learners_, &model_));
  std::vector<Learner*> learners;
  for (int j = 0; j < num_learners(); ++j) {
    Learner& learner = learners_[j];
    learner.device()->set_synchroniser(synchroniser_.get());
    if (learner.accelerator() != nullptr) {
      learner.accelerator()->set_synchroniser(synchroniser_.get());
    }
    learners.push_back(&learner);
  }
  absl::MutexLock lock(&mu_);
  variables_ = std::make_unique<ReplicatedVariables>(
      learners_.central_device(), std::move(learners), &model_, synchroniser_.get());
  return absl::OkStatus();
}

void Trainer::Release() {
  learners_.ReleaseKernels();
  absl::MutexLock lock(&mu_);
  variables_.reset();
}

absl::Status Trainer::Compile(const ProgramGraph& graph, const RunSpec& spec,
                              const RunAnalysis& analysis,
                              const std::set<std::string>& sparse_feeds,
                              std::shared_ptr<LearningProgram>* program) {
  auto made = std::make_shared<LearningProgram>();
  TF_RETURN_IF_ERROR(CompileLearningProgram(graph, spec, analysis, sparse_feeds,
                                            options_, session_options_, *synchroniser_,
                                            &learners_, made.get()));
  constexpr double kStrong = 0.9 - 1e-6;  // 0.9 as a float is a little less
  if (synchroniser_->averages() && analysis.optimiser_momentum >= kStrong &&
      made->momentum >= kStrong) {
    warn_(absl::StrCat("The learners' optimiser has momentum ",
                       analysis.optimiser_momentum,
                       " and the central model has momentum ", made->momentum,
                       ". Together they shrink the usable learning rate 2- to 8-fold; "
                       "momentum=\"auto\" leaves the central model's out."));
  }
  progress_.Add(KeyOf(spec), made, restarts_requested_.load());
  *program = std::move(made);
  return absl::OkStatus();
}

// ---------------------------------------------------------------------- running

absl::Status Trainer::LocateReplicas(LearningProgram* program) {
  TrainedSet* const set = program->set.get();
  for (int j = 0; j < num_learners(); ++j) {
    for (int member = 0; member < set->size(); ++member) {
      TF_RETURN_IF_ERROR(variables_->Locate(program->trained[member], j, member, set));
    }
  }
  return absl::OkStatus();
}

absl::Status Trainer::LocateAfterTask(LearningProgram* program, int learner) {
  TrainedSet* const set = program->set.get();
  for (int member = 0; member < set->size(); ++member) {
    if (synchroniser_->updated(learner, member)) continue;
    if (!synchroniser_->EnterAll(learner, member)) break;  // aborted by another
    TF_RETURN_IF_ERROR(
        variables_->Locate(program->trained[member], learner, member, set));
  }
  return absl::OkStatus();
}

void Trainer::ChooseTrainedSet(LearningProgram* program) {
  if (program->num_trained == variables_->num_trained()) return;
  program->num_trained = variables_->num_trained();
  program->trained.clear();
  // Otherwise there is nothing to keep together.
  if (synchroniser_->keeps_z()) {
    for (const auto& [name, use] : program->analysis.variables) {
      if (use.trained) program->trained.push_back(variables_->Find(name));
    }
  }
  if (synchroniser_->averages()) {
    for (const auto& [name, use] : program->analysis.variables) {
      const int id = variables_->Find(name);
      if (use.written && !use.trained && id >= 0 && variables_->trained(id)) {
        program->trained.push_back(id);
      }
    }
  }
  std::vector<int> model_indices;
  for (int id : program->trained) model_indices.push_back(variables_->model_index(id));
  const int64_t iterations =
      program->set == nullptr ? program->first_iteration : program->set->iterations;
  program->set = std::make_unique<TrainedSet>(num_learners(), std::move(model_indices),
                                              program->momentum);
  program->set->iterations = iterations;
  const int num_updates = static_cast<int>(program->corrects_itself.size());
  program->set->set_meetings(program->num_gradients, num_updates);
  for (int member = 0; member < std::min(num_updates, program->set->size()); ++member) {
    if (program->corrects_itself[member]) program->set->set_corrects_itself(member);
  }
}

absl::StatusOr<bool> Trainer::RestartIsDue(LearningProgram* program,
                                           const std::vector<tf::Tensor>& feeds) {
  const int64_t requested = restarts_requested_.load();
  bool due = program->restarts_seen != requested;
  program->restarts_seen = requested;
  if (options_.restart == Options::Restart::kOnLearningRateDrop) {
    TF_RETURN_IF_ERROR(program->rates.Look(feeds, &learners_[0]));
    due |= program->rates.TakeDrop();
  } else if (options_.restart == Options::Restart::kCallback) {
    TF_ASSIGN_OR_RETURN(const bool wanted, options_.restart_callback(iterations()));
    due |= wanted;
  }
  return due;
}

void Trainer::NoteLateWrites() {
  std::vector<std::string> late_writes;
  {
    absl::MutexLock lock(&late_writes_mu_);
    late_writes.swap(late_writes_);
  }
  for (const std::string& name : late_writes) variables_->MarkAssigned(name);
}

absl::Status Trainer::PrepareReplicas(LearningProgram* program,
                                      const std::vector<tf::Tensor>& feeds,
                                      bool* ready) {
  *ready = true;
  if (num_learners() > 1) {
    NoteLateWrites();
    if (program->variables.empty()) {
      for (const auto& [name, use] : program->analysis.variables) {
        const int id = variables_->Add(use);
        program->variables.push_back(id);
        if (use.written) program->written.push_back(id);
      }
    }
    std::vector<int> uninitialised;
    bool moved = false;
    TF_RETURN_IF_ERROR(
        variables_->Broadcast(program->variables, &uninitialised, &moved));
    if (moved) learners_.NoteMovedReplicas();
    *ready = uninitialised.empty();
    if (!*ready) return absl::OkStatus();
  }
  ChooseTrainedSet(program);
  TF_RETURN_IF_ERROR(LocateReplicas(program));
  if (!synchroniser_->averages()) return absl::OkStatus();
  TF_ASSIGN_OR_RETURN(const bool restart, RestartIsDue(program, feeds));
  if (restart) synchroniser_->Restart(*program->set);
  return absl::OkStatus();
}

absl::Status Trainer::RunTask(int learner, RunState* run, int64_t task) {
  const std::vector<tf::Tensor> feeds = FeedsOfTask(run->plan, task, *run->feeds);
  Learner::Task execution;
  execution.feeds = &feeds;
  // One of its own: the executor cancels it when a kernel fails, which is nobody
  // else's business.
  tf::CancellationManager cancellation(run->cancellation);
  execution.cancellation = &cancellation;
  if (!run->collectors.empty()) execution.stats = run->collectors[learner].get();
  TaskOutcome& outcome = run->outcomes[task];
  outcome.learner = learner;
  TF_RETURN_IF_ERROR(learners_[learner].Execute(*run->program->learners[learner],
                                                execution, &outcome.fetches));
  if (!run->plan.tasks.empty()) {
    outcome.rows = run->plan.tasks[task].count();
  } else if (run->program->rows_fetch >= 0) {
    const tf::Tensor& data = outcome.fetches[run->program->rows_fetch];
    outcome.rows = data.dims() > 0 ? data.dim_size(0) : 0;
  }
  return absl::OkStatus();
}

void Trainer::RunTasks(int learner, RunState* run) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  // Runs while the caller of Run() holds mu_ for all learners.
  LearningProgram* const program = run->program;
  std::optional<TaskScheduler::Assignment> assignment = scheduler_.Next(learner);
  // Where learners share an accelerator, learner 0's first task says how much memory
  // one needs.
  if (learner > 0 && run->measures_memory) run->measured.WaitForNotification();
  for (bool first = true; assignment.has_value() && !synchroniser_->Aborted(learner);
       first = false) {
    if (!synchroniser_->BeforeTask(learner)) break;
    if (learner == 0 && !first && synchroniser_->averages()) {
      program->rates.Look(*run->feeds, &learners_[0]).IgnoreError();
    }
    absl::Status status = RunTask(learner, run, assignment->task);
    if (learner == 0 && first && run->measures_memory) {
      if (status.ok()) status = learners_.CheckMemory();
      program->measured_memory = status.ok();
      run->measured.Notify();
    }
    if (absl::IsOutOfRange(status) && run->ends_with_data) {
      run->status[learner] = status;
      synchroniser_->SitOut(learner);
      break;
    }
    if (status.ok()) status = LocateAfterTask(program, learner);
    if (!status.ok()) {
      run->status[learner] = status;
      synchroniser_->Abort(learner);
      // A sibling may wait for data that now will not come. But a cancelled GetNext
      // would be the end of the shared iterator.
      if (program->analysis.may_block && !program->analysis.reads_iterator) {
        run->cancellation->StartCancel();
      }
      break;
    }
    run->task_iteration[assignment->task] = assignment->iteration;
    if (!synchroniser_->AfterTask(learner)) break;
    assignment = scheduler_.Next(learner);
  }
  if (learner == 0 && run->measures_memory && !run->measured.HasBeenNotified()) {
    run->measured.Notify();
  }
  const absl::Status finished = learners_[learner].Finish();
  if (run->status[learner].ok()) run->status[learner] = finished;
}

absl::Status Trainer::MakeReplicasEqual(LearningProgram* program, const RunState& run) {
  const std::vector<int64_t>& iterations = run.task_iteration;
  const int64_t last = *std::max_element(iterations.begin(), iterations.end());
  const bool failed = std::any_of(
      run.status.begin(), run.status.end(), [&run](const absl::Status& status) {
        return !status.ok() && !(absl::IsOutOfRange(status) && run.ends_with_data);
      });
  std::vector<bool> up_to_date(num_learners(), false);
  if (failed) {  // some may have come further than others, in what is not trained
    up_to_date[0] = true;
  } else if (last < 0) {  // there was no data
    return absl::OkStatus();
  }
  for (size_t task = 0; !failed && task < iterations.size(); ++task) {
    if (iterations[task] == last) up_to_date[run.outcomes[task].learner] = true;
  }
  const auto from = std::find(up_to_date.begin(), up_to_date.end(), true);
  for (int j = 0; j < num_learners(); ++j) {
    if (up_to_date[j]) continue;
    TF_RETURN_IF_ERROR(variables_->CopyReplicas(
        program->written, static_cast<int>(from - up_to_date.begin()), j));
  }
  return absl::OkStatus();
}

absl::Status Trainer::CollectFetches(const LearningProgram& program,
                                     const std::vector<TaskOutcome>& outcomes,
                                     std::vector<tf::Tensor>* fetches) {
  fetches->clear();
  for (const LearningProgram::Fetch& fetch : program.fetches) {
    if (fetch.variable != nullptr) {
      TF_ASSIGN_OR_RETURN(tf::Tensor value, variables_->CentralValue(*fetch.variable));
      fetches->push_back(std::move(value));
      continue;
    }
    TF_ASSIGN_OR_RETURN(tf::Tensor value,
                        Combine(fetch.declaration, outcomes, fetch.task_fetch));
    fetches->push_back(std::move(value));
  }
  return absl::OkStatus();
}

absl::Status Trainer::Run(LearningProgram* program,
                          const std::vector<tf::Tensor>& feeds,
                          const tf::RunOptions& run_options,
                          tf::CancellationManager* cancellation,
                          std::vector<tf::Tensor>* fetches, tf::RunMetadata* metadata,
                          bool* central) {
  *central = false;
  RunState run;
  FeedOptions feed_options;
  feed_options.num_learners = num_learners();
  feed_options.batch_size = options_.batch_size;
  {
    absl::MutexLock lock(&mu_);
    feed_options.task_rows = task_rows_;
  }
  TF_RETURN_IF_ERROR(PlanFeeds(program->feeds, feeds, feed_options, &run.plan));
  const bool divisible = run.plan.ambiguous.empty();
  // Once for a program: the reason may name different numbers of rows every time.
  if (!divisible && (num_learners() > 1 || options_.batch_size > 0) &&
      !program->told_of_feeds.exchange(true)) {
    warn_(absl::StrCat(
        "A learning run was executed by one learner only, because its feeds cannot be "
        "divided without guessing: ",
        run.plan.ambiguous,
        ". Name the feeds that have one row per sample in Options(shard=[...]) and "
        "those that every learner needs whole in Options(replicate=[...])."));
  }
  if (!divisible) run.plan.tasks.clear();

  const bool waits = program->analysis.may_block || program->analysis.reads_iterator;
  const bool read_meanwhile = turns_.Take(waits);
  const auto end_turn = absl::MakeCleanup([this] { turns_.End(); });
  absl::MutexLock lock(&mu_);
  if (!divisible && num_learners() > 1) {
    *central = true;
    return absl::OkStatus();
  }
  bool ready = false;
  TF_RETURN_IF_ERROR(PrepareReplicas(program, feeds, &ready));
  if (!ready) {
    *central = true;
    return absl::OkStatus();
  }
  if (waits && read_meanwhile) {
    TF_RETURN_IF_ERROR(variables_->Publish(program->variables));
  }

  const bool divided = !run.plan.tasks.empty();
  const int64_t num_tasks = divided     ? static_cast<int64_t>(run.plan.tasks.size())
                            : divisible ? num_learners()
                                        : 1;
  tf::CancellationManager run_cancellation(cancellation);
  if (run_cancellation.IsCancelled()) {
    return absl::CancelledError("Run call was cancelled");
  }
  run.program = program;
  run.feeds = &feeds;
  run.ends_with_data = !divided && num_learners() > 1;
  run.cancellation = &run_cancellation;
  run.measures_memory = learners_.accelerators() != nullptr && num_learners() > 1 &&
                        !std::exchange(program->measured_memory, true);
  run.outcomes.resize(num_tasks);
  run.task_iteration.assign(num_tasks, -1);
  run.status.resize(num_learners());
  const bool trace =
      metadata != nullptr && (run_options.trace_level() > tf::RunOptions::NO_TRACE ||
                              run_options.report_tensor_allocations_upon_oom());
  for (int j = 0; trace && j < num_learners(); ++j) {
    run.stats.push_back(std::make_unique<tf::StepStats>());
    run.collectors.push_back(
        std::make_unique<tf::StepStatsCollector>(run.stats.back().get()));
  }

  const bool in_order = !divided || run.plan.one_shard_per_learner;
  scheduler_.Begin(num_tasks,
                   in_order ? SchedulingPolicy::kRoundRobin : options_.scheduling);
  synchroniser_->BeginRun(program->set.get(), &scheduler_);
  const int active = static_cast<int>(std::min<int64_t>(num_tasks, num_learners()));
  const int64_t timeout_ms = run_options.timeout_in_ms() > 0
                                 ? run_options.timeout_in_ms()
                                 : session_options_.config.operation_timeout_in_ms();
  Deadline deadline(timeout_ms, &run_cancellation);
  for (int j = 1; j < active; ++j) {
    learners_[j].worker()->Start([this, j, &run] { RunTasks(j, &run); });
  }
  RunTasks(0, &run);
  for (int j = 1; j < active; ++j) learners_[j].worker()->Wait();
  const bool expired = deadline.Stop();
  const int64_t completed = synchroniser_->EndRun();
  iterations_.fetch_add(completed);
  for (int64_t task = 0; task < num_tasks; ++task) {
    if (run.task_iteration[task] < 0 || run.task_iteration[task] >= completed) continue;
    learning_tasks_.fetch_add(1);
    samples_seen_.fetch_add(std::max<int64_t>(1, run.outcomes[task].rows));
  }
  if (num_learners() > 1) variables_->MarkLearned(program->written);
  if (synchroniser_->synchronises() && !synchroniser_->averages()) {
    TF_RETURN_IF_ERROR(MakeReplicasEqual(program, run));
  }

  for (int j = 0; j < static_cast<int>(run.collectors.size()); ++j) {
    run.collectors[j]->Finalize();
    for (tf::DeviceStepStats& stats : *run.stats[j]->mutable_dev_stats()) {
      stats.set_device(absl::StrCat(stats.device(), "/learner:", j));
      metadata->mutable_step_stats()->add_dev_stats()->Swap(&stats);
    }
  }
  if (metadata != nullptr && run_options.output_partition_graphs()) {
    Learner::AppendGraph(*program->learners[0], metadata->add_partition_graphs());
  }

  // The first error in learner order, but not one that only followed from another.
  absl::Status failure;
  int finished = 0;
  for (int j = 0; j < active; ++j) {
    const absl::Status& status = run.status[j];
    if (status.ok()) {
      ++finished;
    } else if (absl::IsOutOfRange(status) && run.ends_with_data) {
      continue;
    } else if (failure.ok() || absl::IsCancelled(failure)) {
      failure = status;
    }
  }
  if (expired)
    failure = absl::DeadlineExceededError("Timed out waiting for notification");
  const std::string broken = synchroniser_->error();
  if (!broken.empty()) failure = absl::InternalError(broken);
  if (!failure.ok()) {
    if (num_learners() > 1 && synchroniser_->averages()) {
      TF_RETURN_IF_ERROR(LocateReplicas(program));
      synchroniser_->Restart(*program->set);
    }
    return failure;
  }
  if (finished == 0) return run.status[0];  // the end of the data

  std::vector<TaskOutcome> outcomes;
  for (int64_t task = 0; task < num_tasks; ++task) {
    if (run.task_iteration[task] >= 0)
      outcomes.push_back(std::move(run.outcomes[task]));
  }
  return CollectFetches(*program, outcomes, fetches);
}

// ----------------------------------------------------------- beside central runs

absl::Status Trainer::CentralRun::Begin(Trainer* trainer, const RunAnalysis& analysis)
    ABSL_NO_THREAD_SAFETY_ANALYSIS {
  trainer_ = trainer;
  analysis_ = &analysis;
  if (trainer->num_learners() == 1 || analysis.variables.empty()) {
    return absl::OkStatus();
  }
  // A run that a learning run may be waiting for must not wait for it: it uses the
  // central values published last.
  if (!trainer->turns_.TakeCentral(/*at_once=*/analysis.may_block)) {
    unprepared_ = true;
    return absl::OkStatus();
  }
  trainer->mu_.Lock();
  locked_ = true;
  std::vector<int> reached, written;
  for (const auto& [name, use] : analysis.variables) {
    const int id = trainer->variables_->Find(name);
    if (id < 0) continue;
    reached.push_back(id);
    if (use.written) written.push_back(id);
  }
  if (analysis.kind == RunAnalysis::Kind::kLearning) {
    TF_RETURN_IF_ERROR(trainer->variables_->Gather(written));
  }
  TF_RETURN_IF_ERROR(trainer->variables_->Publish(reached));
  if (!written.empty()) {
    TF_ASSIGN_OR_RETURN(before_, trainer->variables_->TakeSnapshot(written));
  }
  if (before_.empty() || analysis.may_block) Unlock();
  return absl::OkStatus();
}

void Trainer::CentralRun::Unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  locked_ = false;
  trainer_->mu_.Unlock();
  trainer_->turns_.End();
}

absl::Status Trainer::CentralRun::End() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (before_.empty() && !unprepared_) return absl::OkStatus();
  if (!locked_ && !unprepared_ && trainer_->turns_.TakeCentral(/*at_once=*/true)) {
    trainer_->mu_.Lock();
    locked_ = true;
  }
  if (locked_) return trainer_->variables_->NoteChanges(before_);
  // Learners are at work: the next learning run takes note.
  absl::MutexLock lock(&trainer_->late_writes_mu_);
  for (const auto& [name, use] : analysis_->variables) {
    if (use.written) trainer_->late_writes_.push_back(name);
  }
  return absl::OkStatus();
}

Trainer::CentralRun::~CentralRun() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (locked_) Unlock();
}

void Trainer::SetTaskRows(std::vector<int64_t> rows) {
  absl::MutexLock lock(&mu_);
  task_rows_ = std::move(rows);
}

void Trainer::CountCentralTask(int64_t rows) {
  iterations_.fetch_add(1);
  learning_tasks_.fetch_add(1);
  samples_seen_.fetch_add(std::max<int64_t>(1, rows));
}

absl::StatusOr<tf::Tensor> Trainer::LearnerValue(const std::string& variable,
                                                 int learner) {
  absl::MutexLock lock(&mu_);
  const int id = variables_->Find(variable);
  if (id < 0) {
    return absl::NotFoundError(
        absl::StrCat("No learning run has reached a variable '", variable, "' yet"));
  }
  return variables_->ReplicaValue(id, learner);
}

absl::StatusOr<tf::Tensor> Trainer::CentralValue(const std::string& variable,
                                                 CentralModel::Which which) {
  absl::MutexLock lock(&mu_);
  const int id = variables_->Find(variable);
  if (id < 0) {
    return absl::NotFoundError(
        absl::StrCat("No learning run has reached a variable '", variable, "' yet"));
  }
  return variables_->ModelValue(id, which);
}

}  // namespace tensorbow
