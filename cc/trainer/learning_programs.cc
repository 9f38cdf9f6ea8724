#include "cc/trainer/learning_programs.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

Compiler LearningPrograms::NewCompiler() {
  return Compiler(state_->options(), state_->session_options(), &state_->learners(),
                  [this](const SharableVariables& sharable) {
                    return state_->sharing().Agree(sharable);
                  });
}

absl::Status LearningPrograms::Compile(const ProgramGraph& graph, const RunSpec& spec,
                                       const RunAnalysis& analysis,
                                       const SparseFeeds& sparse_feeds,
                                       std::shared_ptr<Program>* program) {
  const ScopedMark marked(&state_->activity(), "compile");
  hosts_->ExpectTraining();
  Choice choice = state_->choice();
  const bool first = choice.algorithm == Options::Algorithm::kAuto;
  if (first) choice = ChoiceFor(analysis, state_->options(), state_->learners());
  TF_ASSIGN_OR_RETURN(
      Compilation made,
      NewCompiler().Compile({graph, spec, analysis, sparse_feeds, /*rows=*/nullptr},
                            choice.averages()));
  if (first) {
    absl::MutexLock lock(&state_->mu());
    if (state_->synchronisation() == nullptr) {
      TF_RETURN_IF_ERROR(state_->SetAlgorithm(choice));
      hosts_->AlgorithmChosen();
    }
  }
  if (first && !(state_->choice() == choice)) {
    // A state with another choice has been loaded meanwhile.
    return Compile(graph, spec, analysis, sparse_feeds, program);
  }
  if (choice.averages() == Traits::Averages::kModels && !state_->is_single_learner()) {
    WarnOfTwoMomenta(analysis, choice.momentum);
  }
  *program = std::make_shared<Program>(analysis);
  (*program)->Replace(std::move(made.compiled), std::move(made.learners));
  state_->progress().Add(KeyOf(spec), *program);
  return absl::OkStatus();
}

void LearningPrograms::Recompile(const ProgramGraph& graph, const RunSpec& spec,
                                 const SparseFeeds& sparse_feeds, const RowsOfRun* rows,
                                 Program* program) {
  const ScopedMark marked(&state_->activity(), "compile");
  absl::StatusOr<Compilation> made =
      NewCompiler().Compile({graph, spec, program->analysis, sparse_feeds, rows},
                            state_->choice().averages());
  absl::MutexLock lock(&state_->mu());
  if (!made.ok()) {
    program->state.why_central = std::string(made.status().message());
    state_->warn()(absl::StrCat("A learning run is executed by one learner only: ",
                                made.status().message()));
    return;
  }
  program->Replace(std::move(made->compiled), std::move(made->learners));
  program->state.num_trained = -1;  // its set is to be made again
}

void LearningPrograms::CompileForShapes(const ProgramGraph& graph, const RunSpec& spec,
                                        const SparseFeeds& sparse_feeds,
                                        const TaskShapes& shapes, Program* program) {
  const ScopedMark marked(&state_->activity(), "compile");
  const auto compiled = program->compiled();
  const RowsOfRun* const rows = compiled->rows.has_value() ? &*compiled->rows : nullptr;
  std::vector<TaskGraph> tasks;
  {
    absl::MutexLock lock(&state_->mu());
    if (program->learners() == nullptr) return;
    for (const auto& task : program->learners()->tasks) {
      tasks.push_back(CopyOf(task->task()));
    }
  }
  absl::StatusOr<LearnerPrograms::Tasks> made = NewCompiler().CompileForShapes(
      {graph, spec, program->analysis, sparse_feeds, rows, &shapes},
      state_->choice().averages(), std::move(tasks));
  absl::MutexLock lock(&state_->mu());
  // Without it, such tasks are executed as all others.
  if (!made.ok() || made->empty() || program->learners() == nullptr ||
      program->compiled() != compiled) {
    return;
  }
  program->learners()->by_shapes.emplace_back(shapes, *std::move(made));
}

void LearningPrograms::WarnOfTwoMomenta(const RunAnalysis& analysis, double momentum) {
  constexpr double kStrong = 0.9 - 1e-6;  // 0.9 as a float is a little less
  if (analysis.optimiser_momentum < kStrong || momentum < kStrong) return;
  state_->warn()(
      absl::StrCat("The learners' optimiser has momentum ", analysis.optimiser_momentum,
                   " and the central model has momentum ", momentum,
                   ". Together they shrink the usable learning rate 2- to 8-fold; "
                   "momentum=\"auto\" leaves the central model's out."));
}

// ---------------------------------------------------------------------- deciding

void LearningPrograms::WarnOfFeeds(Program* program, const std::string& why) {
  if (why.empty() || !MayDivide(state_->options(), state_->num_learners())) return;
  // Once for a program: the reason may name different numbers of rows every time.
  if (!program->warned_of_feeds.exchange(true)) state_->warn()(AmbiguousFeedsText(why));
}

absl::StatusOr<FeedPlan> LearningPrograms::Plan(const RunRequest& request) {
  TF_ASSIGN_OR_RETURN(
      FeedPlan plan,
      PlanRun(*request.program->compiled(), *request.feeds, request.task_rows,
              state_->options(), state_->num_learners()));
  WarnOfFeeds(request.program, plan.ambiguous);
  return plan;
}

std::string LearningPrograms::WhyOneLearnerLocked(const Program& program) const {
  return program.state.why_central.empty() ? central_->WhyOneLearner()
                                           : program.state.why_central;
}

std::string LearningPrograms::WhyOneLearner(const Program& program) const {
  absl::MutexLock lock(&state_->mu());
  return WhyOneLearnerLocked(program);
}

absl::StatusOr<Decision> LearningPrograms::Explain(const RunRequest& request) {
  TF_RETURN_IF_ERROR(state_->OnOneHostOnly("explain"));
  Decision decision;
  TF_ASSIGN_OR_RETURN(decision.plan, Plan(request));
  absl::MutexLock lock(&state_->mu());
  decision.why_one_learner = WhyOneLearnerLocked(*request.program);
  if (decision.why_one_learner.empty()) {
    decision.why_one_learner = decision.plan.ambiguous;
  }
  if (!decision.why_one_learner.empty()) return decision;
  const auto compiled = request.program->compiled();
  decision.rows = RowsToCompile(*compiled, *request.feeds, decision.plan,
                                state_->options(), state_->num_learners());
  decision.recompile = decision.rows.has_value();
  if (!decision.recompile) {
    decision.why_one_learner =
        WhyNotDivided(*compiled, decision.plan, state_->options());
  }
  decision.types = compiled->traits.types;
  decision.estimates = compiled->traits.estimates;
  return decision;
}

}  // namespace tensorbow
