// What learners execute, and what keeps them together: Trainer::Compile,
// Trainer::Recompile, Trainer::Choose, and what is compiled again because variables are
// no longer shared (SeparateVariables).
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/coordination/merging_hosts.h"
#include "cc/passes/program/batch_elements.h"
#include "cc/passes/program/cut_at_element.h"
#include "cc/passes/program/resize_constants.h"
#include "cc/passes/program/scale_rates.h"
#include "cc/rewrite/average_at_loss.h"
#include "cc/rewrite/row_moments.h"
#include "cc/rewrite/scale_gradients.h"
#include "cc/trainer/trainer.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace {

constexpr int kMostLearners = 1024;  // of a host; tensorbow/_layout.py checks it

// What learners execute of a program, but for averages and scales.
const ProgramGraph& GraphOf(const LearningProgram& program, const ProgramGraph& graph) {
  if (program.any_rows != nullptr) return *program.any_rows;
  return program.cut != nullptr ? *program.cut : graph;
}

}  // namespace

// `executed` ← a graph of the program's own, if it has to be another one.
absl::Status Trainer::RewriteProgram(const ProgramGraph** executed,
                                     const RunToCompile& run, Traits::Averages averages,
                                     bool at_loss, FixedRows* fixed,
                                     LearningProgram* program) {
  const auto& [graph, spec, analysis, sparse_feeds, adjustments] = run;
  *executed = &graph;
  // Without a proof nothing divides one batch of a fixed number of rows.
  if (options_.proof) {
    TF_ASSIGN_OR_RETURN(const auto asked, RunGraph::Of(graph, spec));
    *fixed = FindFixedRows(*asked, options_.replicate);
  }
  program->cut = std::make_unique<ProgramGraph>();
  TF_ASSIGN_OR_RETURN(const bool is_cut,
                      CutAtElement(**executed, spec, program->cut.get()));
  if (is_cut) {
    *executed = program->cut.get();
  } else {
    program->cut.reset();
  }
  if (fixed->rows > 0 && MayDivide()) {
    program->any_rows = std::make_unique<ProgramGraph>();
    TF_RETURN_IF_ERROR(TakeAnyRows(**executed, spec, *fixed, program->any_rows.get()));
    *executed = program->any_rows.get();
  }
  const RowMoments moments = FindRowMoments(**executed, spec);
  program->meets = averages == Traits::Averages::kGradients && CanMeetInTasks(analysis);
  program->own_moments = moments.any() && !program->meets;
  if (program->meets) {
    if (!moments.means.empty()) {
      program->together = std::make_unique<ProgramGraph>();
      TF_ASSIGN_OR_RETURN(const bool all,
                          AverageMoments(**executed, spec, analysis, program->sums,
                                         program->together.get()));
      program->own_moments = !all;
      *executed = program->together.get();
    }
  }
  if (program->meets && !adjustments.meetings.empty()) {
    program->met = std::make_unique<ProgramGraph>();
    TF_RETURN_IF_ERROR(
        InsertMeetings(**executed, spec, adjustments.meetings, program->met.get()));
    *executed = program->met.get();
  }
  if (at_loss) {
    const auto gradients = FindGradientsAtLoss(**executed, spec, analysis).dense;
    program->at_loss = std::make_unique<ProgramGraph>();
    TF_RETURN_IF_ERROR(
        AverageAtLoss(**executed, spec, gradients, program->at_loss.get()));
    *executed = program->at_loss.get();
    program->same_fetches = FetchesOfAverages(**executed, spec);
  }
  const bool scales_rates = averages == Traits::Averages::kMergedModels;
  if (adjustments.sums.empty() && !scales_rates) return absl::OkStatus();
  program->scaled_graph = std::make_unique<ProgramGraph>();
  if (scales_rates) {
    tensorflow::GraphDef graph;
    TF_RETURN_IF_ERROR(ScaleRates(**executed, spec, analysis, &graph));
    const int64_t rows = options_.adaptive.b_max;
    if (rows > 0) BatchElements(rows, &graph);
    TF_RETURN_IF_ERROR(program->scaled_graph->Extend(graph));
  } else {
    TF_RETURN_IF_ERROR(ScaleGradients(**executed, spec, adjustments.sums,
                                      program->scaled_graph.get()));
  }
  *executed = program->scaled_graph.get();
  return absl::OkStatus();
}

bool Trainer::CanMeetInTasks(const RunAnalysis& analysis) const {
  // Elements that learners take themselves are batches of their own.
  const bool shares_batch =
      options_.divides_batches() && !analysis.takes_data && !analysis.calls_take_data;
  return shares_batch && rounds_ == nullptr && learners_.accelerators() == nullptr;
}

absl::Status Trainer::CompileFor(const Choice& choice, const RunToCompile& run,
                                 std::unique_ptr<LearningProgram>* program) {
  if (trains_alone() || choice.averages() != Traits::Averages::kGradients) {
    *program = std::make_unique<LearningProgram>();
    return CompileAveraging(
        trains_alone() ? Traits::Averages::kNothing : choice.averages(),
        /*at_loss=*/false, run, program->get());
  }
  // Where nothing is in between, updates average: that is less to be done.
  const GradientsAtLoss gradients =
      FindGradientsAtLoss(run.graph, run.spec, run.analysis);
  const bool at_loss =
      gradients.transformed ||
      FollowsFromGradients(run.graph, run.spec, run.analysis, gradients.dense);
  absl::Status first;
  for (const bool averages_at_loss : {at_loss, !at_loss}) {
    if (averages_at_loss && gradients.dense.empty() && !gradients.reduced) continue;
    *program = std::make_unique<LearningProgram>();
    const absl::Status status = CompileAveraging(Traits::Averages::kGradients,
                                                 averages_at_loss, run, program->get());
    // Without proofs runs are divided as they are said to be.
    (*program)->transforms_own =
        options_.proof &&
        (averages_at_loss ? gradients.transformed_else : gradients.transformed);
    if (!absl::IsInvalidArgument(status)) return status;
    first.Update(status);
  }
  return first;
}

absl::Status Trainer::CompileAveraging(Traits::Averages averages, bool at_loss,
                                       const RunToCompile& run,
                                       LearningProgram* program) {
  const auto agree = [this](const SharableVariables& sharable) {
    absl::MutexLock lock(&sharing_mu_);
    return sharing_.Agree(sharable, &separated_);
  };
  const ProgramGraph* executed = nullptr;
  program->sums = !run.adjustments.sums.empty();
  FixedRows fixed;
  TF_RETURN_IF_ERROR(
      RewriteProgram(&executed, run, averages, at_loss, &fixed, program));
  return CompileLearningProgram(*executed, run.spec, run.analysis, run.sparse_feeds,
                                fixed, options_, session_options_, averages, agree,
                                &learners_, program);
}

Choice Trainer::choice() const {
  absl::MutexLock lock(&choice_mu_);
  return choice_;
}

absl::Status Trainer::Choose(const Choice& choice) {
  TF_ASSIGN_OR_RETURN(synchronisation_,
                      NewSynchronisation(choice, options_, learners_, rounds_.get()));
  Synchroniser* const synchroniser = synchronisation_->synchroniser.get();
  std::vector<Learner*> learners;
  for (int j = 0; j < num_learners(); ++j) {
    Learner& learner = learners_[j];
    learner.device()->set_synchroniser(synchroniser);
    if (learner.accelerator() != nullptr) {
      learner.accelerator()->set_synchroniser(synchroniser);
    }
    learners.push_back(&learner);
  }
  variables_ = std::make_unique<ReplicatedVariables>(
      learners_.central_device(), std::move(learners), synchronisation_->model.get(),
      synchroniser);
  if (rounds_ != nullptr) {
    // Hosts that merge may have different numbers of learners.
    const int most =
        synchronisation_->host_merges == nullptr ? num_learners() : kMostLearners;
    variables_->set_first_random_stream(options_.hosts->rank() * most);
  }
  if (merges_ != nullptr) merges_->SetHosts();
  absl::MutexLock lock(&choice_mu_);
  choice_ = choice;
  return absl::OkStatus();
}

void Trainer::Unchoose() {
  variables_.reset();
  for (int j = 0; j < num_learners(); ++j) {
    learners_[j].device()->set_synchroniser(nullptr);
    if (learners_[j].accelerator() != nullptr) {
      learners_[j].accelerator()->set_synchroniser(nullptr);
    }
  }
  synchronisation_.reset();
  absl::MutexLock lock(&choice_mu_);
  choice_ = Choice();
}

absl::Status Trainer::Compile(const ProgramGraph& graph, const RunSpec& spec,
                              const RunAnalysis& analysis,
                              const SparseFeeds& sparse_feeds,
                              std::shared_ptr<LearningProgram>* program) {
  const ScopedMark marked(&activity_, "compile");
  trains_.store(true);
  Choice choice = this->choice();
  const bool first = choice.algorithm == Options::Algorithm::kAuto;
  if (first) choice = ChoiceFor(analysis, options_, learners_);
  std::unique_ptr<LearningProgram> made;
  const Adjustments none;
  const RunToCompile run = {graph, spec, analysis, sparse_feeds, none};
  absl::Status compiled = CompileFor(choice, run, &made);
  if (first && absl::IsInvalidArgument(compiled) &&
      options_.algorithm == Options::Algorithm::kAuto &&
      choice.algorithm == Options::Algorithm::kSsgd) {
    choice.algorithm = Options::Algorithm::kSma;
    compiled = CompileFor(choice, run, &made);
    made->models_instead = rounds_ == nullptr;
  }
  TF_RETURN_IF_ERROR(compiled);
  if (first && trains_alone() && options_.algorithm == Options::Algorithm::kAuto &&
      choice.algorithm == Options::Algorithm::kSsgd &&
      absl::IsInvalidArgument(
          CheckGradients(run, options_, session_options_, &learners_, made.get()))) {
    choice.algorithm = Options::Algorithm::kSma;  // for learners that may come
  }
  made->built.reset();
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
  if (MayDivide()) {
    MakeProof(GraphOf(*made, graph), spec, analysis, made.get());
  }
  *program = std::move(made);
  progress_.Add(KeyOf(spec), *program);
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
                        const SparseFeeds& sparse_feeds, const Adjustments& adjustments,
                        LearningProgram* program) {
  const ScopedMark marked(&activity_, "compile");
  std::unique_ptr<LearningProgram> made;
  const absl::Status status = CompileFor(
      choice(), {graph, spec, program->analysis, sparse_feeds, adjustments}, &made);
  // There was nothing to prove with one learner.
  if (program->divisions == nullptr && MayDivide()) {
    MakeProof(GraphOf(*made, graph), spec, program->analysis, made.get());
  }
  absl::MutexLock lock(&mu_);
  program->models_instead = options_.algorithm == Options::Algorithm::kAuto &&
                            choice().algorithm == Options::Algorithm::kSma &&
                            rounds_ == nullptr && learners_.accelerators() == nullptr;
  if (made->divisions != nullptr) {
    program->divisions = std::move(made->divisions);
    program->unprovable = std::move(made->unprovable);
  }
  if (!status.ok() && !(adjustments == program->adjustments)) {
    const bool meets = adjustments.meetings != program->adjustments.meetings;
    program->divisions->RefuseAdjustments(
        absl::StrCat(meets ? "learners cannot exchange what they compute; "
                           : "the loss sums over rows; ",
                     status.message()));
    return;
  }
  if (!status.ok()) {
    program->why_central = std::string(status.message());
    warn_(absl::StrCat("A learning run is executed by one learner only: ",
                       status.message()));
    return;
  }
  program->replicated = made->replicated;
  program->task_spec = std::move(made->task_spec);
  program->fetches = std::move(made->fetches);
  program->rows_fetch = made->rows_fetch;
  program->learners = std::move(made->learners);
  made->rates.Set(program->rates.last(), program->rates.dropped());
  program->rates = std::move(made->rates);
  program->corrects_itself = std::move(made->corrects_itself);
  program->num_gradients = made->num_gradients;
  program->host_gradients = std::move(made->host_gradients);
  program->shared = std::move(made->shared);
  program->hidden_random_ops = std::move(made->hidden_random_ops);
  program->adjustments = adjustments;
  program->sums = made->sums;
  program->own_moments = made->own_moments;
  program->cut = std::move(made->cut);
  program->any_rows = std::move(made->any_rows);
  program->together = std::move(made->together);
  program->met = std::move(made->met);
  program->at_loss = std::move(made->at_loss);
  program->same_fetches = std::move(made->same_fetches);
  program->transforms_own = made->transforms_own;
  program->scaled_graph = std::move(made->scaled_graph);
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
