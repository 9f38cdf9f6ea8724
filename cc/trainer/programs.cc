// The part of a Trainer that has learning runs compiled for the learners that there
// are.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/program/compiler.h"
#include "cc/trainer/trainer.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

Compiler Trainer::NewCompiler() {
  return Compiler(options_, session_options_, &learners_,
                  [this](const SharableVariables& sharable) {
                    absl::MutexLock lock(&sharing_mu_);
                    return sharing_.Agree(sharable, &separated_);
                  });
}

absl::Status Trainer::Compile(const ProgramGraph& graph, const RunSpec& spec,
                              const RunAnalysis& analysis,
                              const SparseFeeds& sparse_feeds,
                              std::shared_ptr<Program>* program) {
  const ScopedMark marked(&activity_, "compile");
  trains_.store(true);
  Choice choice = this->choice();
  const bool first = choice.algorithm == Options::Algorithm::kAuto;
  if (first) choice = ChoiceFor(analysis, options_, learners_);
  TF_ASSIGN_OR_RETURN(
      Compilation made,
      NewCompiler().Compile({graph, spec, analysis, sparse_feeds, /*rows=*/nullptr},
                            choice.averages()));
  if (first) {
    absl::MutexLock lock(&mu_);
    if (synchronisation_ == nullptr) TF_RETURN_IF_ERROR(Choose(choice));
  }
  if (first && !(this->choice() == choice)) {
    // A state with another choice has been loaded meanwhile.
    return Compile(graph, spec, analysis, sparse_feeds, program);
  }
  if (choice.averages() == Traits::Averages::kModels && !trains_alone()) {
    WarnOfTwoMomenta(analysis, choice.momentum);
  }
  *program = std::make_shared<Program>(analysis);
  (*program)->Replace(std::move(made.compiled), std::move(made.learners));
  progress_.Add(KeyOf(spec), *program);
  return absl::OkStatus();
}

void Trainer::Recompile(const ProgramGraph& graph, const RunSpec& spec,
                        const SparseFeeds& sparse_feeds, const RowsOfRun* rows,
                        Program* program) {
  const ScopedMark marked(&activity_, "compile");
  absl::StatusOr<Compilation> made = NewCompiler().Compile(
      {graph, spec, program->analysis, sparse_feeds, rows}, choice().averages());
  absl::MutexLock lock(&mu_);
  if (!made.ok()) {
    program->state.why_central = std::string(made.status().message());
    warn_(absl::StrCat("A learning run is executed by one learner only: ",
                       made.status().message()));
    return;
  }
  program->Replace(std::move(made->compiled), std::move(made->learners));
  program->state.num_trained = -1;  // its set is to be made again
}

std::string Trainer::WhyOneLearner(const Program& program) {
  absl::MutexLock lock(&mu_);
  return WhyOne(program);
}

std::string Trainer::WhyOne(const Program& program) const {
  return program.state.why_central.empty() ? WhyOneLearnerNow()
                                           : program.state.why_central;
}

absl::Status Trainer::SeparateVariables() {
  Sharing::Names names;
  {
    absl::MutexLock lock(&sharing_mu_);
    names.swap(separated_);
  }
  if (names.empty()) return absl::OkStatus();
  for (const auto& [key, program] : progress_.Programs()) {
    const bool shares =
        std::any_of(names.begin(), names.end(),
                    [&p = *program](const auto& name) { return p.Shares(name); });
    if (shares) program->ForgetLearners();
  }
  return variables_->Separate(names);
}

}  // namespace tensorbow
