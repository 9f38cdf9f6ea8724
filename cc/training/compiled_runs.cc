// What learners execute: Trainer::Compile, Trainer::Recompile, and what is compiled
// again because variables are no longer shared (SeparateVariables).
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/rewrite/batch_elements.h"
#include "cc/rewrite/scale_gradients.h"
#include "cc/rewrite/scale_rates.h"
#include "cc/training/trainer.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

absl::Status Trainer::CompileFor(const Choice& choice, const ProgramGraph& graph,
                                 const RunSpec& spec, const RunAnalysis& analysis,
                                 const SparseFeeds& sparse_feeds,
                                 LearningProgram* program) {
  const Traits::Averages averages =
      replicates() ? choice.averages() : Traits::Averages::kNothing;
  const auto agree = [this](const SharableVariables& sharable) {
    absl::MutexLock lock(&sharing_mu_);
    return sharing_.Agree(sharable, &separated_);
  };
  const ProgramGraph* executed = &graph;
  if (averages == Traits::Averages::kMergedModels) {
    program->scaled_graph = std::make_unique<ProgramGraph>();
    executed = program->scaled_graph.get();
    tensorflow::GraphDef scaled;
    TF_RETURN_IF_ERROR(ScaleRates(graph, spec, analysis, &scaled));
    const int64_t rows = options_.adaptive.b_max;
    if (rows > 0) BatchElements(rows, &scaled);
    TF_RETURN_IF_ERROR(program->scaled_graph->Extend(scaled));
  }
  return CompileLearningProgram(*executed, spec, analysis, sparse_feeds, options_,
                                session_options_, averages, agree, &learners_, program);
}

absl::Status Trainer::Compile(const ProgramGraph& graph, const RunSpec& spec,
                              const RunAnalysis& analysis,
                              const SparseFeeds& sparse_feeds,
                              std::shared_ptr<LearningProgram>* program) {
  const ScopedMark marked(&activity_, "compile");
  Choice choice = this->choice();
  const bool first = choice.algorithm == Options::Algorithm::kAuto;
  if (first) choice = ChoiceFor(analysis, options_, learners_);
  auto made = std::make_shared<LearningProgram>();
  absl::Status compiled =
      CompileFor(choice, graph, spec, analysis, sparse_feeds, made.get());
  if (first && absl::IsInvalidArgument(compiled) &&
      options_.algorithm == Options::Algorithm::kAuto &&
      choice.algorithm == Options::Algorithm::kSsgd) {
    // The gradients are not to be found: the models are averaged instead.
    choice.algorithm = Options::Algorithm::kSma;
    made = std::make_shared<LearningProgram>();
    compiled = CompileFor(choice, graph, spec, analysis, sparse_feeds, made.get());
  }
  TF_RETURN_IF_ERROR(compiled);
  if (first && !replicates() && options_.algorithm == Options::Algorithm::kAuto &&
      choice.algorithm == Options::Algorithm::kSsgd &&
      absl::IsInvalidArgument(CheckGradients(graph, spec, analysis, options_,
                                             session_options_, &learners_))) {
    choice.algorithm = Options::Algorithm::kSma;  // for learners that may come
  }
  if (first) {
    absl::MutexLock lock(&mu_);
    if (synchronisation_ == nullptr) TF_RETURN_IF_ERROR(Choose(choice));
  }
  if (first && !(this->choice() == choice)) {
    // A state with another choice has been loaded meanwhile.
    return Compile(graph, spec, analysis, sparse_feeds, program);
  }
  if (choice.averages() == Traits::Averages::kModels && replicates()) {
    WarnOfTwoMomenta(analysis, choice.momentum);
  }
  if (MayDivide()) MakeProof(graph, spec, analysis, made.get());
  progress_.Add(KeyOf(spec), made);
  *program = std::move(made);
  return absl::OkStatus();
}

void Trainer::WarnOfTwoMomenta(const RunAnalysis& analysis, double momentum) {
  constexpr double kStrong = 0.9 - 1e-6;  // 0.9 as a float is a little less
  if (analysis.optimiser_momentum < kStrong || momentum < kStrong) return;
  warn_(absl::StrCat("The learners' optimiser has momentum ",
                     analysis.optimiser_momentum,
                     " and the central model has momentum ", momentum,
                     ". Together they shrink the usable learning rate 2- to 8-fold; "
                     "momentum=\"auto\" leaves the central model's out."));
}

void Trainer::Recompile(const ProgramGraph& graph, const RunSpec& spec,
                        const SparseFeeds& sparse_feeds,
                        const std::set<std::string>& tensors,
                        LearningProgram* program) {
  const ScopedMark marked(&activity_, "compile");
  std::unique_ptr<ProgramGraph> scaled;
  absl::Status status;
  if (!tensors.empty()) {
    scaled = std::make_unique<ProgramGraph>();
    status = ScaleGradients(graph, spec, tensors, scaled.get());
  }
  LearningProgram made;
  if (status.ok()) {
    status = CompileFor(choice(), scaled == nullptr ? graph : *scaled, spec,
                        program->analysis, sparse_feeds, &made);
  }
  // There was nothing to prove with one learner.
  if (program->divisions == nullptr && MayDivide()) {
    MakeProof(graph, spec, program->analysis, &made);
  }
  absl::MutexLock lock(&mu_);
  if (made.divisions != nullptr) program->divisions = std::move(made.divisions);
  if (!status.ok() && tensors != program->scaled) {
    program->divisions->RefuseSums(
        absl::StrCat("the loss sums over rows; ", status.message()));
    return;
  }
  if (!status.ok()) {
    program->why_central = std::string(status.message());
    warn_(absl::StrCat("A learning run is executed by one learner only: ",
                       status.message()));
    return;
  }
  program->replicated = made.replicated;
  program->task_spec = std::move(made.task_spec);
  program->fetches = std::move(made.fetches);
  program->rows_fetch = made.rows_fetch;
  program->learners = std::move(made.learners);
  made.rates.Set(program->rates.last(), program->rates.dropped());
  program->rates = std::move(made.rates);
  program->corrects_itself = std::move(made.corrects_itself);
  program->num_gradients = made.num_gradients;
  program->host_gradients = std::move(made.host_gradients);
  program->shared = std::move(made.shared);
  program->hidden_random_ops = std::move(made.hidden_random_ops);
  program->scaled = tensors;
  program->scaled_graph =
      scaled != nullptr ? std::move(scaled) : std::move(made.scaled_graph);
  program->num_trained = -1;  // its set is to be made again
}

absl::Status Trainer::SeparateVariables() {
  Sharing::Names names;
  {
    absl::MutexLock lock(&sharing_mu_);
    names.swap(separated_);
  }
  if (names.empty()) return absl::OkStatus();
  for (const auto& [key, program] : progress_.Programs()) {
    const bool shares = std::any_of(
        names.begin(), names.end(),
        [&p = *program](const auto& name) { return p.shared.count(name) > 0; });
    if (shares) program->ForgetLearners();
  }
  return variables_->Separate(names);
}

}  // namespace tensorbow
