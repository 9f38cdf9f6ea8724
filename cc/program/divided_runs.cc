// How the runs of a program are divided: the Trainer's plans of feeds, its proofs of
// divisions, what it tells about them, and what learners have fetched, put together.
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/program/compiler.h"
#include "cc/trainer/trainer.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Why learners that are in step would not make the step of one, in spite of a proof;
// empty if they do.
std::string WhyNotInStep(const Verdict& verdict, const TaskTraits& traits) {
  std::string why;
  if (!traits.meets) return why;
  if (traits.transforms_own) {
    why =
        "gradients are clipped, or transformed otherwise, where they cannot be "
        "averaged "
        "before, as those of some rows of a variable";
  } else if (verdict.inexact) {
    why = absl::StrCat(
        "the weights of its rows depend on which rows are computed together: ",
        verdict.why);
  } else if (!verdict.coupled.empty()) {
    why = absl::StrCat("something besides batch normalisation mixes its rows: ",
                       verdict.coupled);
  } else if (!verdict.states_differ.empty()) {
    why = verdict.states_differ;
  }
  return why;
}

}  // namespace

bool Trainer::MayDivide() const {
  return num_learners() > 1 || options_.rows_of_batch() > 0;
}

std::unique_ptr<Divisions> Trainer::MakeProof(const Compilation& made,
                                              const RunSpec& spec,
                                              const RunAnalysis& analysis,
                                              std::string* unprovable) {
  std::vector<std::string> fetches;
  for (const FetchRule& fetch : made.compiled->fetches) {
    const bool open =
        !fetch.variable.has_value() && !fetch.declaration.combination.has_value();
    fetches.push_back(open ? fetch.declaration.name : "");
  }
  std::unique_ptr<DivisionProof> proof;
  absl::Status proved = absl::FailedPreconditionError("proof=\"off\"");
  if (options_.proof && !spec.feeds.empty()) {
    proved = DivisionProof::Make(made.whole->graph(), spec, analysis, fetches, &proof);
  }
  // Elements that learners take themselves are not divided.
  if (absl::IsUnimplemented(proved) && !analysis.takes_data &&
      !analysis.calls_take_data) {
    *unprovable = std::string(proved.message());
  }
  if (proved.ok()) return std::make_unique<Divisions>(std::move(proof));
  return std::make_unique<Divisions>(std::string(proved.message()));
}

absl::Status Trainer::PlanRun(const RunRequest& request, FeedPlan* plan) {
  Program* const program = request.program;
  FeedOptions options;
  options.num_learners = num_learners();
  options.batch_size = options_.rows_of_batch();
  options.task_rows = request.task_rows;
  TF_RETURN_IF_ERROR(
      PlanFeeds(program->compiled()->feeds, *request.feeds, options, plan));
  if (plan->doubt.empty() && plan->tasks.size() > 1 && !plan->trusted) {
    absl::MutexLock lock(&mu_);  // Recompile() may find out
    plan->doubt = program->unprovable;
  }
  if (plan->ambiguous.empty() && !options_.proof) plan->ambiguous = plan->doubt;
  if (plan->ambiguous.empty()) return absl::OkStatus();
  plan->tasks.clear();
  WarnOfFeeds(program, plan->ambiguous);
  return absl::OkStatus();
}

void Trainer::WarnOfFeeds(Program* program, const std::string& why) {
  // Once for a program: the reason may name different numbers of rows every time.
  if (!MayDivide() || program->warned_of_feeds.exchange(true)) return;
  warn_(absl::StrCat(
      "A learning run was executed by one learner only, because its feeds cannot be "
      "divided without guessing: ",
      why,
      ". Name the feeds that have one row per sample in Options(shard=[...]) and "
      "those that every learner needs whole in Options(replicate=[...])."));
}

void Trainer::WarnOf(const Verdict& verdict, const FeedPlan& plan, Program* program) {
  if (Refuses(verdict, plan) && !plan.doubt.empty()) {
    return WarnOfFeeds(program, plan.doubt);
  }
  const auto compiled = program->compiled();
  std::vector<std::string> names;
  for (size_t i = 0; i < plan.divided.size(); ++i) {
    if (plan.divided[i]) names.push_back(compiled->feeds[i].name);
  }
  const std::string divided = absl::StrJoin(names, ", ");
  if (!verdict.divides()) {
    if (program->warned_of_feeds.exchange(true)) return;
    warn_(absl::StrCat(
        "A learning run is executed by one learner only: dividing the rows of ",
        divided, " changes what it computes: ", verdict.why,
        ". If that is wanted, name the feeds that have one row per sample in "
        "Options(shard=[...]); name those that every learner needs whole in "
        "Options(replicate=[...])."));
    return;
  }
  if (!WhyNotInStep(verdict, compiled->traits).empty())
    return;  // one learner executes it
  // Where the number of rows is fixed, a mean is a sum over rows, divided by it.
  if (!verdict.adjustments.sums.empty() && options_.divides_batches() &&
      !compiled->traits.takes_any_rows) {
    warn_(absl::StrCat("The loss of a learning run sums over the rows of ", divided,
                       ": each learner's gradient is scaled by the number of learners "
                       "that share the rows, so that a step is that of all rows."));
  }
  for (int fetch : verdict.uncombined) {
    const std::string& name = compiled->fetches[fetch].declaration.name;
    if (compiled->traits.same_fetches.count(name) > 0) continue;
    warn_(absl::StrCat(
        "Fetch '", name,
        "' of a learning run is learner 0's: the learners' values cannot be put "
        "together to what one learner computes from all rows. Options(combine={\"",
        name, "\": ...}) chooses how to."));
  }
}

bool Trainer::HasTooFewRows(const Verdict& verdict, const FeedPlan& plan,
                            const TaskTraits& traits) {
  // Below, batch normalisation trains worse (Wu and He, Group Normalization, 2018).
  constexpr int64_t kLeastRows = 16;
  if (!traits.own_moments || verdict.kind != Verdict::Kind::kBatchMoments ||
      options_.algorithm != Options::Algorithm::kAuto || !options_.divides_batches() ||
      rounds_ != nullptr || plan.tasks.back().count() >= kLeastRows) {
    return false;
  }
  warn_(absl::StrCat(
      "A learning run is executed by one learner only: rows are normalised by the "
      "moments of their batch, each learner would do so by its own rows, and they "
      "would be fewer than ",
      kLeastRows,
      ". Feed more rows, ask for fewer learners, or for a synchroniser, which makes "
      "this your choice."));
  return true;
}

bool Trainer::DiffersInStep(const Verdict& verdict, const TaskTraits& traits) {
  const std::string why = WhyNotInStep(verdict, traits);
  if (why.empty()) return false;
  warn_(
      absl::StrCat("A learning run is executed by one learner only, since learners in "
                   "step would not "
                   "make its step: ",
                   why,
                   ". A synchroniser that averages models, or a batch_size, has each "
                   "learner train on "
                   "its rows as on a batch of its own."));
  return true;
}

absl::Status Trainer::Prove(const RunRequest& request, const FeedPlan& plan,
                            const Verdict** verdict) {
  Program* const program = request.program;
  *verdict = nullptr;
  if (plan.tasks.size() < 2 || plan.trusted || program->divisions == nullptr) {
    return absl::OkStatus();
  }
  const int64_t iterations = iterations_.load();
  if (program->divisions->Due(plan, iterations)) {
    if (replicates()) {
      TF_RETURN_IF_ERROR(variables_->Publish(program->state.variables));
    }
    const ScopedMark marked(&activity_, "prove");
    program->divisions->Prove(learners_, *request.feeds, plan, num_learners(),
                              options_.rows_of_batch(), iterations);
  }
  *verdict = program->divisions->Find(plan);
  return absl::OkStatus();
}

absl::StatusOr<bool> Trainer::DecideDivision(const RunRequest& request, FeedPlan* plan,
                                             const Verdict** verdict,
                                             RunOutcome* outcome) {
  Program* const program = request.program;
  TF_RETURN_IF_ERROR(Prove(request, *plan, verdict));
  if (*verdict == nullptr) return true;
  if (program->divisions->TestAndClearNews(*plan)) WarnOf(**verdict, *plan, program);
  const auto compiled = program->compiled();
  if (Refuses(**verdict, *plan) || HasTooFewRows(**verdict, *plan, compiled->traits) ||
      DiffersInStep(**verdict, compiled->traits)) {
    *verdict = nullptr;
    outcome->executed = outcome->undivided = request.has_element;
    if (outcome->undivided) *plan = WithoutDivision(*plan, *request.feeds);
    return outcome->undivided;
  }
  if (!options_.divides_batches()) return true;
  const Adjustments& wanted = (*verdict)->adjustments;
  const Adjustments& made = compiled->adjustments;
  if (wanted.sums == made.sums &&
      (!compiled->traits.meets || wanted.meetings == made.meetings)) {
    return true;
  }
  outcome->executed = false;
  outcome->recompile = wanted;
  if (!compiled->traits.meets) outcome->recompile->meetings.clear();
  return false;
}

bool Trainer::Refused(const RunRequest& request, const FeedPlan& plan) {
  Program* const program = request.program;
  if (plan.tasks.size() < 2 || plan.trusted) return false;
  absl::MutexLock lock(&mu_);
  if (program->divisions == nullptr) return false;
  const Verdict* const verdict = program->divisions->Find(plan);
  if (verdict == nullptr || !Refuses(*verdict, plan) ||
      program->divisions->Due(plan, iterations_.load())) {
    return false;
  }
  // Found out when the learners' graphs were compiled again.
  if (program->divisions->TestAndClearNews(plan)) WarnOf(*verdict, plan, program);
  return true;
}

absl::Status Trainer::CollectFetches(const Program& program, const Verdict* verdict,
                                     const std::vector<TaskOutcome>& outcomes,
                                     std::vector<tf::Tensor>* fetches) {
  const auto compiled = program.compiled();
  for (const FetchRule& fetch : compiled->fetches) {
    if (fetch.variable.has_value()) {
      TF_ASSIGN_OR_RETURN(tf::Tensor value, variables_->CentralValue(*fetch.variable));
      fetches->push_back(std::move(value));
      continue;
    }
    FetchDeclaration declaration = fetch.declaration;
    if (verdict != nullptr && !verdict->fetches.empty()) {
      declaration.proven = verdict->fetches[&fetch - compiled->fetches.data()];
    }
    if (compiled->traits.same_fetches.count(declaration.name) > 0) {
      declaration.proven = Combination::kFirst;
    }
    TF_ASSIGN_OR_RETURN(tf::Tensor value,
                        Combine(declaration, outcomes, fetch.task_fetch));
    fetches->push_back(std::move(value));
  }
  return absl::OkStatus();
}

absl::StatusOr<Explanation> Trainer::Explain(const RunRequest& request) {
  TF_RETURN_IF_ERROR(OnOneHostOnly("explain"));
  Explanation explanation;
  TF_RETURN_IF_ERROR(PlanRun(request, &explanation.plan));
  if (explanation.plan.tasks.size() < 2) return explanation;
  const Program& program = *request.program;
  const bool waits = program.analysis.may_block || program.analysis.reads_iterator;
  const bool read_meanwhile = turns_.Take();
  const auto end_turn = absl::MakeCleanup([this] { turns_.End(); });
  absl::MutexLock lock(&mu_);
  bool ready = true;
  TF_RETURN_IF_ERROR(BroadcastWrites(request.program, &ready));
  if (!ready) {
    return absl::FailedPreconditionError(
        "explain() wants variables that have values: run their initialisers first");
  }
  TF_RETURN_IF_ERROR(PrepareCentral(waits, read_meanwhile, program));
  const Verdict* verdict = nullptr;
  TF_RETURN_IF_ERROR(Prove(request, explanation.plan, &verdict));
  if (verdict == nullptr) return explanation;
  explanation.verdict = *verdict;
  const auto compiled = program.compiled();
  const TaskTraits& traits = compiled->traits;
  for (const FetchRule& fetch : compiled->fetches) {
    explanation.same.push_back(traits.same_fetches.count(fetch.declaration.name) > 0);
  }
  const std::string why = WhyNotInStep(*verdict, traits);
  if (!why.empty()) {
    explanation.verdict->kind = Verdict::Kind::kNotSound;
    explanation.verdict->why = why;
  }
  return explanation;
}

}  // namespace tensorbow
