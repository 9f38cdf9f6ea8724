// Compiles what learners execute, and chooses what keeps them together.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/coordination/merging_hosts.h"
#include "cc/passes/program/batch_elements.h"
#include "cc/passes/program/cut_at_element.h"
#include "cc/passes/program/insert_exchanges.h"
#include "cc/passes/program/resize_constants.h"
#include "cc/passes/program/scale_rates.h"
#include "cc/trainer/trainer.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace {

constexpr int kMostLearners = 1024;  // of a host; tensorbow/_layout.py checks it

// Returns whether any feed has rows that learners divide.
bool HasRows(const RowsOfRun& rows) {
  return !rows.sparse.empty() ||
         std::any_of(rows.feeds.begin(), rows.feeds.end(),
                     [](const FeedOfRows& feed) { return feed.divided; });
}

// Returns whether the user has named all feeds that are divided: then they are divided
// whatever their types.
bool AllNamed(const std::vector<FeedDeclaration>& feeds, const RowsOfRun& rows,
              const Options& options) {
  for (const FeedOfRows& row : rows.feeds) {
    if (row.divided && options.shard.count(row.tensor) == 0) return false;
  }
  return std::all_of(feeds.begin(), feeds.end(), [](const FeedDeclaration& feed) {
    return !feed.sparse.has_value() || feed.named;
  });
}

}  // namespace

bool Trainer::MayDivide() const {
  return num_learners() > 1 || options_.rows_of_batch() > 0;
}

Exchanging Trainer::ExchangingFor(Traits::Averages averages) const {
  if (averages != Traits::Averages::kGradients ||
      learners_.accelerators() != nullptr) {
    return Exchanging::kNothing;
  }
  return rounds_ == nullptr ? Exchanging::kAll : Exchanging::kGradients;
}

// `*executed` ← a graph of the program's own, if it has to be another one.
absl::Status Trainer::RewriteProgram(const ProgramGraph** executed,
                                     const RunToCompile& run, Traits::Averages averages,
                                     LearningProgram* program) {
  const RunSpec& spec = run.spec;
  *executed = &run.graph;
  // Without types nothing divides one batch of a fixed number of rows.
  FixedRows fixed;
  if (options_.proof) fixed = FindFixedRows(**executed, spec, options_.replicate);
  program->cut = std::make_unique<ProgramGraph>();
  TF_ASSIGN_OR_RETURN(const bool is_cut,
                      CutAtElement(**executed, spec, program->cut.get()));
  if (is_cut) {
    *executed = program->cut.get();
  } else {
    program->cut.reset();
  }
  if (fixed.rows > 0 && MayDivide()) {
    program->any_rows = std::make_unique<ProgramGraph>();
    TF_RETURN_IF_ERROR(TakeAnyRows(**executed, spec, fixed, program->any_rows.get()));
    *executed = program->any_rows.get();
  }
  TF_RETURN_IF_ERROR(DissectRun(**executed, spec, run.sparse_feeds, fixed, options_,
                                replicates(), program));
  if (MayDivide() && options_.proof) {
    TF_RETURN_IF_ERROR(TypeProgram(executed, run, averages, program));
  }
  if (averages != Traits::Averages::kMergedModels) return absl::OkStatus();
  tensorflow::GraphDef scaled;
  TF_RETURN_IF_ERROR(ScaleRates(**executed, spec, run.analysis, &scaled));
  const int64_t rows = options_.adaptive.b_max;
  if (rows > 0) BatchElements(rows, &scaled);
  program->exchanged = std::make_unique<ProgramGraph>();
  TF_RETURN_IF_ERROR(program->exchanged->Extend(scaled));
  *executed = program->exchanged.get();
  return absl::OkStatus();
}

absl::Status Trainer::TypeProgram(const ProgramGraph** executed,
                                  const RunToCompile& run, Traits::Averages averages,
                                  LearningProgram* program) {
  program->rows =
      run.rows != nullptr ? std::make_optional(*run.rows) : DeclaredRows(program->feeds);
  if (!program->rows.has_value()) {
    program->rows.emplace();  // compiled when the ranks are known
    program->awaits_feeds = true;
    return absl::OkStatus();
  }
  if (!HasRows(*program->rows)) {
    // Nothing is divided: learners would all do the same, or each act on its own.
    if (ExchangingFor(averages) != Exchanging::kAll || !options_.divides_batches() ||
        !options_.divides_elements()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError("nothing that it is fed or takes has rows");
  }
  absl::flat_hash_set<std::string> trained;
  for (const auto& [name, use] : run.analysis.variables) {
    if (use.trained) trained.insert(name);
  }
  TF_ASSIGN_OR_RETURN(RowTypes found,
                      TypeRows(**executed, run.spec, trained, *program->rows));
  const Exchanging exchanging = ExchangingFor(averages);
  std::string why;
  if (found.unknown != nullptr) why = Describe(*found.unknown);
  const bool shares_batch = options_.divides_batches();
  if (why.empty() && shares_batch) {
    auto exchanged = std::make_unique<ProgramGraph>();
    const absl::StatusOr<bool> estimates = InsertExchanges(
        **executed, run.spec, found, exchanging, exchanged.get());
    if (absl::IsInvalidArgument(estimates.status())) {
      why = std::string(estimates.status().message());
    } else {
      TF_RETURN_IF_ERROR(estimates.status());
      program->own_values = *estimates;
      program->exchanged = std::move(exchanged);
      program->exchanges = exchanging == Exchanging::kAll;
      if (averages == Traits::Averages::kGradients) {
        program->averaged.emplace();
        for (const RowWrite& write : found.writes) {
          if (write.trained && write.type.is(RowKind::kSum)) {
            program->averaged->insert(write.node);
          }
        }
      }
    }
  } else if (why.empty()) {
    program->own_values = true;
  }
  if (why.empty()) why = SetFetchRules(found, program->own_values, program);
  if (why.empty()) {
    program->types = std::make_shared<const RowTypes>(std::move(found));
    if (program->exchanged != nullptr) *executed = program->exchanged.get();
    return absl::OkStatus();
  }
  program->exchanged.reset();
  program->exchanges = program->own_values = false;
  program->averaged.reset();
  if (AllNamed(program->feeds, *program->rows, options_)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("its rows cannot be divided: ", why));
}

absl::Status Trainer::CompileFor(const Choice& choice, const RunToCompile& run,
                                 std::unique_ptr<LearningProgram>* program) {
  const auto agree = [this](const SharableVariables& sharable) {
    absl::MutexLock lock(&sharing_mu_);
    return sharing_.Agree(sharable, &separated_);
  };
  const Traits::Averages averages =
      trains_alone() ? Traits::Averages::kNothing : choice.averages();
  *program = std::make_unique<LearningProgram>();
  const ProgramGraph* executed = nullptr;
  TF_RETURN_IF_ERROR(RewriteProgram(&executed, run, averages, program->get()));
  (*program)->analysis = run.analysis;
  if ((*program)->awaits_feeds) return absl::OkStatus();
  return CompileLearningProgram(*executed, run.analysis, options_, session_options_,
                                averages, agree, &learners_, program->get());
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
  if (choice.averages() == Traits::Averages::kGradients && options_.proof &&
      options_.divides_batches() && options_.divides_elements()) {
    variables_->set_equal_replicas();
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
  TF_RETURN_IF_ERROR(
      CompileFor(choice, {graph, spec, analysis, sparse_feeds, nullptr}, &made));
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
                        const SparseFeeds& sparse_feeds, const RowsOfRun* rows,
                        LearningProgram* program) {
  const ScopedMark marked(&activity_, "compile");
  std::unique_ptr<LearningProgram> made;
  const absl::Status status = CompileFor(
      choice(), {graph, spec, program->analysis, sparse_feeds, rows}, &made);
  absl::MutexLock lock(&mu_);
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
  program->rows = std::move(made->rows);
  program->types = std::move(made->types);
  program->awaits_feeds = made->awaits_feeds;
  program->own_values = made->own_values;
  program->exchanges = made->exchanges;
  program->cut = std::move(made->cut);
  program->any_rows = std::move(made->any_rows);
  program->exchanged = std::move(made->exchanged);
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
