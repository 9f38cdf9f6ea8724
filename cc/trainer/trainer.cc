#include "cc/trainer/trainer.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "cc/feeds/fetches.h"
#include "cc/support/flush_denormals.h"
#include "cc/trainer/run_report.h"
#include "cc/training/trained_sets.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

int64_t TimeoutOf(const RunRequest& request, const tf::SessionOptions& session) {
  const int64_t timeout_ms = request.run_options->timeout_in_ms();
  return timeout_ms > 0 ? timeout_ms : session.config.operation_timeout_in_ms();
}

bool MayBlock(const Program& program) {
  return program.analysis.may_block || program.analysis.reads_iterator;
}

// Returns the run as other hosts see it.
HostRun HostRunOf(const Program& program, bool has_data) {
  HostRun run;
  run.set = program.state.set.get();
  run.written = &program.state.written;
  run.has_data = has_data;
  return run;
}

}  // namespace

Trainer::Trainer(const tf::SessionOptions& session_options, const Options& options,
                 tf::Session* central, tf::Device* central_device,
                 AcceleratorBackend* accelerators, TrainingState::Warn warn)
    : state_(session_options, options, central, central_device, accelerators,
             std::move(warn)),
      training_(&state_),
      hosts_(NewHostCoordinator(state_.rounds(),
                                options.algorithm == Options::Algorithm::kAdaptive,
                                &training_)),
      central_(&state_),
      checkpoint_(&state_, hosts_.get()),
      programs_(&state_, hosts_.get(), &central_) {}

// ---------------------------------------------------------------- steps of a run

absl::StatusOr<bool> Trainer::AskForRestart() {
  if (state_.options().restart != Options::Restart::kCallback) return false;
  // The user's callback may itself run the session.
  static thread_local bool asking = false;
  if (asking) return false;
  asking = true;
  const auto end = absl::MakeCleanup([] { asking = false; });
  return state_.options().restart_callback(iterations());
}

std::optional<RunOutcome> Trainer::Refuse(const RunRequest& request,
                                          const FeedPlan& plan, int planned_for) {
  const Program& program = *request.program;
  if (!program.state.why_central.empty() || !central_.WhyOneLearner().empty()) {
    return OnCentral();
  }
  const auto compiled = program.compiled();
  std::optional<RowsOfRun> rows =
      RowsToCompile(*compiled, *request.feeds, plan, state_.options(), num_learners());
  // Learners may have come or gone.
  if (rows.has_value() || program.learners() == nullptr ||
      num_learners() != planned_for) {
    return Stale{std::move(rows)};
  }
  const std::string text = WhyNotDivided(*compiled, plan, state_.options());
  if (!text.empty()) {
    state_.warn()(text);
    return OnCentral();
  }
  if (!request.end_of_data.ok()) return std::nullopt;
  std::optional<TaskShapes> shapes =
      program.learners()->counts.Count(ShapesOfTasks(plan, *request.feeds));
  if (!shapes.has_value()) return std::nullopt;
  return Recurring{*std::move(shapes)};
}

absl::StatusOr<bool> Trainer::Prepare(const RunRequest& request, const FeedPlan& plan,
                                      bool restart) {
  Program* const program = request.program;
  const bool has_data = request.end_of_data.ok();
  VariableTable::Agreement agree;
  if (hosts_->must_agree_on_values()) {
    agree = [this](HostValues* values) { return hosts_->AgreeOnValues(values); };
  }
  TF_ASSIGN_OR_RETURN(const bool ready, BroadcastWrites(&state_, program, agree));
  if (!ready) return false;
  ChooseTrainedSet(&state_, program);
  HostRun run = HostRunOf(*program, has_data);
  run.knows_rows = !plan.tasks.empty() || program->compiled()->rows_fetch < 0;
  TF_RETURN_IF_ERROR(hosts_->BeforeRun(run));
  TF_RETURN_IF_ERROR(state_.ApplyRestarts());
  const Options& options = state_.options();
  Synchroniser* const synchroniser = state_.synchroniser();
  if (hosts_->elastic()) {
    synchroniser->SetAlpha(options.alpha_of(num_learners() * options.hosts_left()));
  }
  TF_RETURN_IF_ERROR(
      LocateReplicas(&state_, program->state.trained, program->state.set.get()));
  if (!synchroniser->traits().averages_models()) return true;
  if (options.restart == Options::Restart::kOnLearningRateDrop && has_data) {
    TF_ASSIGN_OR_RETURN(
        std::vector<double> rates,
        program->learners()->rates.Evaluate(*request.feeds, &state_.learners()[0]));
    program->state.rates.Record(std::move(rates));
    restart |= program->state.rates.TestAndClearDrop();
  }
  if (restart) synchroniser->Restart(*program->state.set);
  return true;
}

void Trainer::Execute(const RunRequest& request, LearningRun* run) {
  Program* const program = request.program;
  if (IsTraced(request)) run->Trace();
  state_.synchroniser()->RunWithoutHosts(hosts_->repeats_run());
  state_.activity().BeginRun(NowNanos());
  if (!request.end_of_data.ok()) {
    run->ExecuteWithoutData(request.end_of_data);
    return;
  }
  // The learners call these while this call holds the lock.
  const auto after_task = [this, program](int learner) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return LocateAfterTask(&state_, program, learner);
  };
  const auto merge = [this, program, run]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    HostRun merged = HostRunOf(*program, /*has_data=*/true);
    merged.pending_tasks = run->NumTasks();
    merged.pending_rows = run->NumRows();
    return MergeModels(&state_, hosts_.get(), merged);
  };
  run->Execute(state_.options().scheduling,
               TimeoutOf(request, state_.session_options()), after_task, merge);
}

absl::Status Trainer::Conclude(Program* program, LearningRun* run) {
  RecordRun(&state_, *program, *run);
  state_.counters().Add({run->completed(), run->NumTasks(), run->NumRows()});
  VariableTable* const variables = state_.variables();
  const std::vector<int>& written = program->state.written;
  if (state_.replicates()) variables->MarkLearned(written, run->learned());
  Synchroniser* const synchroniser = state_.synchroniser();
  const Traits& traits = synchroniser->traits();
  if (traits.averages_gradients()) {
    TF_RETURN_IF_ERROR(MakeReplicasEqual(&state_, program, run->up_to_date()));
  }
  if (state_.replicates()) {
    TF_RETURN_IF_ERROR(variables->PublishEager(written));
  }
  const bool broken =
      !synchroniser->error().empty() || synchroniser->stopped_by_hosts();
  if (traits.averages_models() && (run->failed() || broken)) {
    TF_RETURN_IF_ERROR(
        LocateReplicas(&state_, program->state.trained, program->state.set.get()));
    synchroniser->Restart(*program->state.set);
  }
  if (traits.merges_models() && run->failed()) return AbandonMegaBatch(&state_);
  return absl::OkStatus();
}

absl::Status Trainer::CollectFetches(const RunRequest& request, LearningRun* run,
                                     Executed* outcome) {
  const std::vector<TaskOutcome> outcomes = run->TakeOutcomes();
  const auto compiled = request.program->compiled();
  std::vector<tf::Tensor>* const fetches = &outcome->fetches;
  TF_ASSIGN_OR_RETURN(outcome->deferred,
                      DeferredRunOf(*compiled, *request.feeds, outcomes));
  for (const FetchSource& fetch : compiled->fetches) {
    if (fetch.deferred) {
      fetches->emplace_back();
      continue;
    }
    absl::StatusOr<tf::Tensor> value =
        fetch.variable.has_value()
            ? state_.variables()->CentralValue(*fetch.variable)
            : Combine(fetch.declaration, outcomes, fetch.task_fetch);
    TF_RETURN_IF_ERROR(value.status());
    fetches->push_back(*std::move(value));
  }
  return absl::OkStatus();
}

absl::StatusOr<RunOutcome> Trainer::Run(const RunRequest& request) {
  Program* const program = request.program;
  Executed outcome;
  FeedPlan plan;
  const int planned_for = num_learners();
  const bool has_data = request.end_of_data.ok();
  if (has_data) {
    TF_ASSIGN_OR_RETURN(plan, programs_.Plan(request));
  }
  if (planned_for > 1 && !plan.ambiguous.empty()) {
    if (!request.feeds_element) return OnCentral();
    plan = WithoutDivision(plan, *request.feeds);
    outcome.on_one_learner = true;
  }
  TF_ASSIGN_OR_RETURN(const bool restart, AskForRestart());

  const Turn turn(&state_);
  const ScopedFlushDenormals flush;
  TF_RETURN_IF_ERROR(state_.StopSharing());
  if (auto refused = Refuse(request, plan, planned_for)) return *std::move(refused);
  TF_ASSIGN_OR_RETURN(const bool ready, Prepare(request, plan, restart));
  if (!ready) return OnCentral{/*uninitialised=*/true};
  TF_RETURN_IF_ERROR(
      central_.PrepareRun(*program, MayBlock(*program), turn.central_bypasses()));

  MegaBatches* const batches = BeginBatches(&state_, plan);
  Synchroniser* const synchroniser = state_.synchroniser();
  LearningRun run(program, *request.feeds, std::move(plan), &state_.learners(),
                  state_.scheduler(), synchroniser, batches, &state_.activity(),
                  request.cancellation);
  TF_RETURN_IF_ERROR(ResetUntrainedReads(&state_, program, run.num_active()));
  Execute(request, &run);
  TF_RETURN_IF_ERROR(Conclude(program, &run));
  AppendMetadata(request, &run);
  const std::string broken = synchroniser->error();
  if (!broken.empty()) return absl::InternalError(broken);
  HostRun ended = HostRunOf(*program, !absl::IsOutOfRange(run.status()));
  ended.failed = run.failed();
  ended.stopped_by_hosts = synchroniser->stopped_by_hosts();
  TF_ASSIGN_OR_RETURN(const bool again, hosts_->AfterRun(ended));
  if (again) return Again();
  TF_RETURN_IF_ERROR(run.status());
  outcome.layout = state_.learners().layout();
  outcome.num_rows = run.NumRows();
  TF_RETURN_IF_ERROR(CollectFetches(request, &run, &outcome));
  return outcome;
}

// --------------------------------------------------------------- between two runs

absl::Status Trainer::SetLayout(const Layout& layout) {
  TF_RETURN_IF_ERROR(state_.OnOneHostOnly("set_learners"));
  const Turn turn(&state_);
  const ScopedFlushDenormals flush;
  return state_.SetLayout(layout);
}

Layout Trainer::layout() {
  absl::MutexLock lock(&state_.mu());
  return state_.learners().layout();
}

std::vector<std::string> Trainer::LearnerDevices() {
  absl::MutexLock lock(&state_.mu());
  return state_.learners().Descriptions();
}

void Trainer::Leave() {
  if (!hosts_->TestAndSetLeaving()) return;
  const Turn turn(&state_);
  hosts_->Leave();
}

void Trainer::CountCentralTask(int64_t rows) {
  state_.counters().Add({/*iterations=*/1, /*tasks=*/1, std::max<int64_t>(1, rows)});
}

HostRounds::Counts Trainer::counts() {
  HostRounds::Counts all = hosts_->counts();
  const HostRounds::Counts own = state_.counters().Get();
  all.iterations += own.iterations;
  all.tasks += own.tasks;
  all.rows += own.rows;
  return all;
}

}  // namespace tensorbow
