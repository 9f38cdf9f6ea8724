#include "cc/trainer/trainer.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "cc/coordination/merging_hosts.h"
#include "cc/support/flush_denormals.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

Trainer::Trainer(const tf::SessionOptions& session_options, const Options& options,
                 tf::Session* central, tf::Device* central_device,
                 AcceleratorBackend* accelerators, Warn warn)
    : session_options_(session_options),
      options_(options),
      central_(central),
      warn_(std::move(warn)),
      rounds_(options.num_hosts() > 1
                  ? std::make_unique<HostRounds>(options.hosts.get())
                  : nullptr),
      merges_(rounds_ != nullptr && options.algorithm == Options::Algorithm::kAdaptive
                  ? std::make_unique<MergesOfHosts>(this)
                  : nullptr),
      learners_(session_options, options, central, central_device, accelerators,
                [this](const std::string& why) {
                  warn_(absl::StrCat(
                      "cuda_graphs=\"on\": learning tasks are executed op by op, "
                      "because ",
                      why));
                }) {}

Trainer::~Trainer() = default;

absl::Status Trainer::Start() {
  TF_ASSIGN_OR_RETURN(const Layout first, learners_.FirstLayout());
  TF_RETURN_IF_ERROR(learners_.Make(first));
  learners_.SetLayout(first);
  activity_.SetLearners(num_learners());
  scheduler_ = std::make_unique<TaskScheduler>(num_learners());
  // What is known to be impossible is said at once.
  if (num_learners() == 1 && !options_.tunes_learners) return absl::OkStatus();
  return CheckAlgorithm(options_.algorithm, learners_);
}

void Trainer::Release() {
  learners_.ReleaseKernels();
  absl::MutexLock lock(&mu_);
  variables_.reset();
}

// ---------------------------------------------------------------------- replicas

absl::Status Trainer::LocateReplicas(const std::vector<int>& ids, TrainedSet* set) {
  for (int j = 0; j < num_learners(); ++j) {
    for (int member = 0; member < set->size(); ++member) {
      TF_RETURN_IF_ERROR(variables_->Locate(ids[member], j, member, set));
    }
  }
  return absl::OkStatus();
}

absl::Status Trainer::RestartIfAsked() {
  if (std::exchange(behind_hosts_, false)) Restart();
  const int64_t requested = restarts_requested_.load();
  if (std::exchange(restarts_made_, requested) == requested || variables_ == nullptr) {
    return absl::OkStatus();
  }
  if (synchronisation_->adaptive != nullptr) return AbandonMegaBatch();
  Synchroniser* const synchroniser = synchronisation_->synchroniser.get();
  if (!synchroniser->traits().averages_models()) return absl::OkStatus();
  TF_ASSIGN_OR_RETURN(const TrainedSet all, LocateAll());
  synchroniser->Restart(all);
  return absl::OkStatus();
}

absl::Status Trainer::RefreshWhatIsRead(Program* program, int num_active) {
  TrainedSet* const set = program->state.only_read_set.get();
  if (set == nullptr || set->size() == 0) return absl::OkStatus();
  TF_RETURN_IF_ERROR(LocateReplicas(program->state.only_read, set));
  synchronisation_->synchroniser->ResetNonParticipants(*set, num_active);
  return absl::OkStatus();
}

absl::Status Trainer::LocateAfterTask(Program* program, int learner) {
  Synchroniser* const synchroniser = synchronisation_->synchroniser.get();
  TrainedSet* const set = program->state.set.get();
  for (int member = 0; member < set->size(); ++member) {
    if (synchroniser->updates(learner).updated(member)) continue;
    if (!synchroniser->updates(learner).EnterAll(member)) break;  // aborted by another
    TF_RETURN_IF_ERROR(
        variables_->Locate(program->state.trained[member], learner, member, set));
  }
  return absl::OkStatus();
}

void Trainer::ChooseTrainedSet(Program* program) {
  if (program->state.num_trained == variables_->num_trained()) return;
  program->state.num_trained = variables_->num_trained();
  program->state.trained.clear();
  program->state.only_read.clear();
  const bool averages_models =
      synchronisation_->synchroniser->traits().averages_models();
  // Otherwise there is nothing to keep together within a run.
  if (averages_models || (synchronisation_->model->keeps_average() &&
                          !synchronisation_->model->merges())) {
    for (const auto& [name, use] : program->analysis.variables) {
      if (use.trained) program->state.trained.push_back(variables_->Find(name));
    }
  }
  if (averages_models) {
    for (const auto& [name, use] : program->analysis.variables) {
      const int id = variables_->Find(name);
      if (use.trained || id < 0 || !variables_->trained(id)) continue;
      (use.written ? program->state.trained : program->state.only_read).push_back(id);
    }
  }
  std::vector<int> model_indices;
  for (int id : program->state.only_read) {
    model_indices.push_back(variables_->model_index(id));
  }
  program->state.only_read_set =
      std::make_unique<TrainedSet>(num_learners(), std::move(model_indices));
  model_indices.clear();
  for (int id : program->state.trained)
    model_indices.push_back(variables_->model_index(id));
  auto set = std::make_unique<TrainedSet>(num_learners(), std::move(model_indices));
  if (program->state.set == nullptr) {
    set->set_iterations(program->state.first_iteration);
  } else {
    set->set_count(program->state.set->count());
  }
  program->state.set = std::move(set);
  program->state.set->program = program->Fingerprint();
  const auto compiled = program->compiled();
  const TaskTraits& traits = compiled->traits;
  program->state.set->host_gradients = compiled->host_gradients;
  const int num_updates = static_cast<int>(traits.corrects_itself.size());
  program->state.set->set_exchanges(traits.num_gradients,
                                    averages_models ? 0 : num_updates);
  for (int member = 0; member < std::min(num_updates, program->state.set->size());
       ++member) {
    if (traits.corrects_itself[member]) program->state.set->set_corrects_itself(member);
  }
}

void Trainer::NoteWrites() {
  absl::MutexLock lock(&writes_mu_);
  if (variables_ == nullptr) return;  // nothing has been replicated yet
  for (const std::string& name : writes_) variables_->MarkAssigned(name);
  writes_.clear();
}

absl::Status Trainer::BroadcastWrites(Program* program, bool* ready) {
  *ready = true;
  if (!replicates()) return absl::OkStatus();
  NoteWrites();
  if (program->state.variables.empty()) {
    NoteCaptured(program->analysis);
    for (const auto& [name, use] : program->analysis.variables) {
      const int id = variables_->Add(use);
      program->state.variables.push_back(id);
      if (use.written) program->state.written.push_back(id);
      if (program->Shares(name)) program->state.one_copy.push_back(id);
    }
    TF_RETURN_IF_ERROR(variables_->Place(program->state.variables));
  }
  TF_RETURN_IF_ERROR(variables_->Share(program->state.one_copy));
  variables_->DetectEagerWrites(program->state.variables);
  std::vector<int> uninitialised;
  bool moved = false;
  ReplicatedVariables::Agreement agree;
  if (rounds_ != nullptr && !rounds_->hosts()->returns()) {
    agree = [this](std::map<std::string, tf::Tensor>* values)
                ABSL_NO_THREAD_SAFETY_ANALYSIS { return AgreeWithHosts(values); };
  }
  TF_RETURN_IF_ERROR(
      variables_->Broadcast(program->state.variables, agree, &uninitialised, &moved));
  if (moved) learners_.NoteMovedReplicas();
  *ready = uninitialised.empty();
  return absl::OkStatus();
}

absl::Status Trainer::PrepareReplicas(Program* program,
                                      const std::vector<tf::Tensor>* feeds,
                                      bool restart, bool* ready) {
  TF_RETURN_IF_ERROR(BroadcastWrites(program, ready));
  if (!*ready) return absl::OkStatus();
  ChooseTrainedSet(program);
  if (has_elastic_hosts()) TF_RETURN_IF_ERROR(MeetReturningHosts(program));
  TF_RETURN_IF_ERROR(RestartIfAsked());
  if (has_elastic_hosts()) {  // which may have become fewer, in another session
    const int learners = num_learners() * options_.hosts_left();
    synchronisation_->synchroniser->SetAlpha(options_.alpha_of(learners));
  }
  TF_RETURN_IF_ERROR(LocateReplicas(program->state.trained, program->state.set.get()));
  if (!synchronisation_->synchroniser->traits().averages_models()) {
    return absl::OkStatus();
  }
  if (options_.restart == Options::Restart::kOnLearningRateDrop && feeds != nullptr) {
    TF_ASSIGN_OR_RETURN(std::vector<double> rates,
                        program->learners()->rates.Evaluate(*feeds, &learners_[0]));
    program->state.rates.Record(std::move(rates));
    restart |= program->state.rates.TestAndClearDrop();
  }
  if (restart) synchronisation_->synchroniser->Restart(*program->state.set);
  return absl::OkStatus();
}

absl::Status Trainer::MakeReplicasEqual(Program* program, const LearningRun& run) {
  // After a failure some may have come further than others, in what is not trained.
  const std::vector<int> up_to_date =
      run.failed() ? std::vector<int>{0} : run.present();
  if (up_to_date.empty()) return absl::OkStatus();  // there was no data
  for (int j = 0; j < num_learners(); ++j) {
    if (std::binary_search(up_to_date.begin(), up_to_date.end(), j)) continue;
    TF_RETURN_IF_ERROR(
        variables_->CopyReplicas(program->state.written, up_to_date.front(), j));
  }
  return absl::OkStatus();
}

// ---------------------------------------------------------------------- running

absl::StatusOr<bool> Trainer::AskForRestart() {
  if (options_.restart != Options::Restart::kCallback) return false;
  // What the user gave may itself run the session.
  static thread_local bool asking = false;
  if (asking) return false;
  asking = true;
  const auto end = absl::MakeCleanup([] { asking = false; });
  return options_.restart_callback(iterations());
}

namespace {

bool IsTraced(const RunRequest& request) {
  return request.metadata != nullptr &&
         (request.run_options->trace_level() > tf::RunOptions::NO_TRACE ||
          request.run_options->report_tensor_allocations_upon_oom());
}

// Hosts that cannot take an update back count it before they make it.
absl::Status CheckRowsAreKnown(const Program& program, const FeedPlan& plan) {
  if (!plan.tasks.empty() || program.compiled()->rows_fetch < 0)
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      "Elastic hosts that average gradients have to know the rows of a learning run "
      "before it is executed. Use tensorbow.SMA(), or leave out "
      "Options(elements=\"one_each\")");
}

}  // namespace

absl::Status Trainer::Conclude(Program* program, LearningRun* run) {
  iterations_.fetch_add(run->completed());
  learning_tasks_.fetch_add(run->NumTasks());
  samples_seen_.fetch_add(run->NumRows());
  if (replicates()) variables_->MarkLearned(program->state.written, run->learned());
  const Traits& traits = synchronisation_->synchroniser->traits();
  if (traits.averages_gradients()) {
    TF_RETURN_IF_ERROR(MakeReplicasEqual(program, *run));
  }
  if (replicates()) {
    TF_RETURN_IF_ERROR(variables_->PublishEager(
        program->state.written, /*failed=*/run->failed() && run->completed() == 0));
  }
  const bool broken = !synchronisation_->synchroniser->error().empty() ||
                      synchronisation_->synchroniser->stopped_by_hosts();
  if (traits.averages_models() && (run->failed() || broken)) {
    TF_RETURN_IF_ERROR(
        LocateReplicas(program->state.trained, program->state.set.get()));
    synchronisation_->synchroniser->Restart(*program->state.set);
  }
  if (traits.merges_models() && run->failed()) return AbandonMegaBatch();
  return absl::OkStatus();
}

absl::StatusOr<RunOutcome> Trainer::Run(const RunRequest& request) {
  Program* const program = request.program;
  RunOutcome outcome;
  FeedPlan plan;
  const int planned_for = num_learners();
  const bool has_data = request.end_of_data.ok();
  if (has_data) TF_RETURN_IF_ERROR(PlanRun(request, &plan));
  if (planned_for > 1 && !plan.ambiguous.empty()) {
    if (!request.has_element) return outcome;
    plan = WithoutDivision(plan, *request.feeds);
    outcome.undivided = true;
  }
  TF_ASSIGN_OR_RETURN(const bool restart, AskForRestart());

  const bool waits = program->analysis.may_block || program->analysis.reads_iterator;
  const bool read_meanwhile = turns_.Take();
  const auto end_turn = absl::MakeCleanup([this] { turns_.End(); });
  absl::MutexLock lock(&mu_);
  const ScopedFlushDenormals flush;
  TF_RETURN_IF_ERROR(SeparateVariables());
  if (!WhyOne(*program).empty()) return outcome;
  outcome.rows = RowsToCompile(request, plan);
  // Learners may have come or gone.
  outcome.recompile = outcome.rows.has_value() || program->learners() == nullptr ||
                      num_learners() != planned_for;
  if (outcome.recompile) return outcome;
  if (HasTooFewRows(plan, *program)) return outcome;
  TF_RETURN_IF_ERROR(PrepareReplicas(program, has_data ? request.feeds : nullptr,
                                     restart, &outcome.executed));
  outcome.uninitialised = !outcome.executed;
  if (!outcome.executed) return outcome;
  if (has_data && has_elastic_hosts() && averages_gradients()) {
    TF_RETURN_IF_ERROR(CheckRowsAreKnown(*program, plan));
  }
  TF_RETURN_IF_ERROR(PrepareCentral(waits, read_meanwhile, *program));

  MegaBatches* const batches = BeginBatches(plan);
  LearningRun run(program, *request.feeds, std::move(plan), &learners_,
                  scheduler_.get(), synchronisation_->synchroniser.get(), batches,
                  &activity_, request.cancellation);
  TF_RETURN_IF_ERROR(RefreshWhatIsRead(program, run.num_active()));
  if (IsTraced(request)) run.Trace();
  const tf::RunOptions& run_options = *request.run_options;
  const int64_t timeout_ms = run_options.timeout_in_ms() > 0
                                 ? run_options.timeout_in_ms()
                                 : session_options_.config.operation_timeout_in_ms();
  synchronisation_->synchroniser->RunWithoutHosts(inherited_.has_value());
  activity_.BeginRun(NowNanos());
  if (!has_data) {
    run.ExecuteWithoutData(request.end_of_data);
  } else {
    run.Execute(
        options_.scheduling, timeout_ms,
        [this, program](int learner) ABSL_NO_THREAD_SAFETY_ANALYSIS {
          // This call holds mu_ for all learners.
          return LocateAfterTask(program, learner);
        },
        [this, &run]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return MergeModels(&run); });
  }
  NoteRun(*program, run);
  TF_RETURN_IF_ERROR(Conclude(program, &run));
  if (request.metadata != nullptr) {
    run.AppendStats(request.metadata->mutable_step_stats());
    if (run_options.output_partition_graphs()) {
      Learner::AppendGraph(*program->learners()->tasks[0],
                           request.metadata->add_partition_graphs());
    }
  }
  const std::string broken = synchronisation_->synchroniser->error();
  if (!broken.empty()) return absl::InternalError(broken);
  TF_RETURN_IF_ERROR(FollowHosts(*program, run, &outcome.again));
  if (outcome.again) return outcome;
  TF_RETURN_IF_ERROR(run.status());
  outcome.layout = learners_.layout();
  outcome.num_rows = run.NumRows();
  TF_RETURN_IF_ERROR(CollectFetches(*program, run.TakeOutcomes(), &outcome.fetches));
  return outcome;
}

void Trainer::CountCentralTask(int64_t rows) {
  iterations_.fetch_add(1);
  learning_tasks_.fetch_add(1);
  samples_seen_.fetch_add(std::max<int64_t>(1, rows));
}

}  // namespace tensorbow
