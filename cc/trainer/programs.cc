// The part of a Trainer that compiles and explains learning runs, and tells of them.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/support/flush_denormals.h"
#include "cc/trainer/mega_batch_merges.h"
#include "cc/trainer/trainer.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

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
      checkpoint_(&state_, hosts_.get()) {}

// --------------------------------------------------------------------- compiling

Compiler Trainer::NewCompiler() {
  return Compiler(state_.options(), state_.session_options(), &state_.learners(),
                  [this](const SharableVariables& sharable) {
                    return state_.sharing().Agree(sharable);
                  });
}

absl::Status Trainer::Compile(const ProgramGraph& graph, const RunSpec& spec,
                              const RunAnalysis& analysis,
                              const SparseFeeds& sparse_feeds,
                              std::shared_ptr<Program>* program) {
  const ScopedMark marked(&activity(), "compile");
  hosts_->ExpectTraining();
  Choice choice = this->choice();
  const bool first = choice.algorithm == Options::Algorithm::kAuto;
  if (first) choice = ChoiceFor(analysis, state_.options(), state_.learners());
  TF_ASSIGN_OR_RETURN(
      Compilation made,
      NewCompiler().Compile({graph, spec, analysis, sparse_feeds, /*rows=*/nullptr},
                            choice.averages()));
  if (first) {
    absl::MutexLock lock(&state_.mu());
    if (state_.synchronisation() == nullptr) {
      TF_RETURN_IF_ERROR(state_.SetAlgorithm(choice));
      hosts_->AlgorithmChosen();
    }
  }
  if (first && !(this->choice() == choice)) {
    // A state with another choice has been loaded meanwhile.
    return Compile(graph, spec, analysis, sparse_feeds, program);
  }
  if (choice.averages() == Traits::Averages::kModels && !state_.is_single_learner()) {
    WarnOfTwoMomenta(analysis, choice.momentum);
  }
  *program = std::make_shared<Program>(analysis);
  (*program)->Replace(std::move(made.compiled), std::move(made.learners));
  state_.progress().Add(KeyOf(spec), *program);
  return absl::OkStatus();
}

void Trainer::Recompile(const ProgramGraph& graph, const RunSpec& spec,
                        const SparseFeeds& sparse_feeds, const RowsOfRun* rows,
                        Program* program) {
  const ScopedMark marked(&activity(), "compile");
  absl::StatusOr<Compilation> made = NewCompiler().Compile(
      {graph, spec, program->analysis, sparse_feeds, rows}, choice().averages());
  absl::MutexLock lock(&state_.mu());
  if (!made.ok()) {
    program->state.why_central = std::string(made.status().message());
    state_.warn()(absl::StrCat("A learning run is executed by one learner only: ",
                               made.status().message()));
    return;
  }
  program->Replace(std::move(made->compiled), std::move(made->learners));
  program->state.num_trained = -1;  // its set is to be made again
}

void Trainer::CompileForShapes(const ProgramGraph& graph, const RunSpec& spec,
                               const SparseFeeds& sparse_feeds,
                               const TaskShapes& shapes, Program* program) {
  const ScopedMark marked(&activity(), "compile");
  const auto compiled = program->compiled();
  const RowsOfRun* const rows = compiled->rows.has_value() ? &*compiled->rows : nullptr;
  absl::StatusOr<Compilation> made = NewCompiler().Compile(
      {graph, spec, program->analysis, sparse_feeds, rows, &shapes},
      choice().averages());
  absl::MutexLock lock(&state_.mu());
  // Without it, such tasks are executed as all others.
  if (!made.ok() || program->learners() == nullptr || program->compiled() != compiled) {
    return;
  }
  program->learners()->by_shapes.emplace_back(shapes, std::move(made->learners->tasks));
}

void Trainer::WarnOfTwoMomenta(const RunAnalysis& analysis, double momentum) {
  constexpr double kStrong = 0.9 - 1e-6;  // 0.9 as a float is a little less
  if (analysis.optimiser_momentum < kStrong || momentum < kStrong) return;
  state_.warn()(
      absl::StrCat("The learners' optimiser has momentum ", analysis.optimiser_momentum,
                   " and the central model has momentum ", momentum,
                   ". Together they shrink the usable learning rate 2- to 8-fold; "
                   "momentum=\"auto\" leaves the central model's out."));
}

// ---------------------------------------------------------------------- deciding

void Trainer::WarnOfFeeds(Program* program, const std::string& why) {
  if (why.empty() || !MayDivide(state_.options(), num_learners())) return;
  // Once for a program: the reason may name different numbers of rows every time.
  if (!program->warned_of_feeds.exchange(true)) state_.warn()(AmbiguousFeedsText(why));
}

absl::StatusOr<FeedPlan> Trainer::Plan(const RunRequest& request) {
  TF_ASSIGN_OR_RETURN(FeedPlan plan,
                      PlanRun(*request.program->compiled(), *request.feeds,
                              request.task_rows, state_.options(), num_learners()));
  WarnOfFeeds(request.program, plan.ambiguous);
  return plan;
}

std::string Trainer::WhyOne(const Program& program) const {
  return program.state.why_central.empty() ? central_.WhyOneLearner()
                                           : program.state.why_central;
}

std::string Trainer::WhyOneLearner(const Program& program) {
  absl::MutexLock lock(&state_.mu());
  return WhyOne(program);
}

absl::Status Trainer::OnOneHostOnly(const char* what) const {
  if (!has_other_hosts()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(what, " is implemented for one host, and this session trains with ",
                   state_.options().num_hosts(), "."));
}

absl::StatusOr<Decision> Trainer::Explain(const RunRequest& request) {
  TF_RETURN_IF_ERROR(OnOneHostOnly("explain"));
  Decision decision;
  TF_ASSIGN_OR_RETURN(decision.plan, Plan(request));
  absl::MutexLock lock(&state_.mu());
  decision.why_one_learner = WhyOne(*request.program);
  if (decision.why_one_learner.empty()) {
    decision.why_one_learner = decision.plan.ambiguous;
  }
  if (!decision.why_one_learner.empty()) return decision;
  const auto compiled = request.program->compiled();
  decision.rows = RowsToCompile(*compiled, *request.feeds, decision.plan,
                                state_.options(), num_learners());
  decision.recompile = decision.rows.has_value();
  if (!decision.recompile) {
    decision.why_one_learner =
        WhyNotDivided(*compiled, decision.plan, state_.options());
  }
  decision.types = compiled->traits.types;
  decision.estimates = compiled->traits.estimates;
  return decision;
}

// --------------------------------------------------------------- between two runs

absl::Status Trainer::SetLayout(const Layout& layout) {
  TF_RETURN_IF_ERROR(OnOneHostOnly("set_learners"));
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

absl::Status Trainer::FlushMegaBatch() {
  return tensorbow::FlushMegaBatch(&state_, hosts_.get());
}

std::vector<MegaBatches::Record> Trainer::MegaBatchRecords() {
  return tensorbow::MegaBatchRecords(&state_);
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

absl::StatusOr<Metrics> Trainer::GetMetrics() {
  absl::MutexLock lock(&state_.mu());
  return MetricsOf(&state_);
}

absl::StatusOr<int> Trainer::FindReplicated(const std::string& variable) {
  state_.MarkWrites();
  const int id =
      state_.variables() == nullptr ? -1 : state_.variables()->Find(variable);
  if (id < 0) {
    return absl::NotFoundError(
        absl::StrCat("No learning run has reached a variable '", variable, "' yet"));
  }
  return id;
}

absl::StatusOr<tf::Tensor> Trainer::LearnerValue(const std::string& variable,
                                                 int learner) {
  absl::MutexLock lock(&state_.mu());
  TF_ASSIGN_OR_RETURN(const int id, FindReplicated(variable));
  return state_.variables()->ReplicaValue(id, learner);
}

absl::StatusOr<tf::Tensor> Trainer::CentralValue(const std::string& variable,
                                                 CentralModel::Which which) {
  absl::MutexLock lock(&state_.mu());
  TF_ASSIGN_OR_RETURN(const int id, FindReplicated(variable));
  return state_.variables()->ModelValue(id, which);
}

}  // namespace tensorbow
