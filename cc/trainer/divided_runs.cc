// Divides runs: the trainer's plans of feeds, its decision who executes a run, and the
// fetches of learners, put together.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/program/run_rules.h"
#include "cc/trainer/trainer.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

bool Trainer::MayDivide() const {
  return num_learners() > 1 || options_.rows_of_batch() > 0;
}

absl::Status Trainer::PlanRun(const RunRequest& request, FeedPlan* plan) {
  Program* const program = request.program;
  FeedOptions options;
  options.num_learners = num_learners();
  options.batch_size = options_.rows_of_batch();
  options.task_rows = request.task_rows;
  const auto compiled = program->compiled();
  TF_RETURN_IF_ERROR(PlanFeeds(compiled->feeds, *request.feeds, options, plan));
  // Types know whether it matters.
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

std::optional<RowsOfRun> Trainer::RowsToCompile(const RunRequest& request,
                                                const FeedPlan& plan) const {
  const auto compiled = request.program->compiled();
  if (!options_.proof || !MayDivide() || !compiled->rows.has_value()) {
    return std::nullopt;
  }
  const bool divides = plan.tasks.size() > 1 && !plan.trusted;
  if (!divides && !compiled->awaits_feeds) return std::nullopt;
  RowsOfRun rows = PlannedRows(compiled->feeds, plan, *request.feeds);
  if (!compiled->awaits_feeds && rows == *compiled->rows) return std::nullopt;
  return rows;
}

bool Trainer::HasTooFewRows(const FeedPlan& plan, const Program& program) {
  // Below, batch normalisation trains worse (Wu and He, Group Normalization, 2018).
  constexpr int64_t kLeastRows = 16;
  if (!program.compiled()->traits.estimates ||
      options_.algorithm != Options::Algorithm::kAuto || !options_.divides_batches() ||
      rounds_ != nullptr || plan.tasks.size() < 2 ||
      plan.tasks.back().count() >= kLeastRows) {
    return false;
  }
  warn_(absl::StrCat(
      "A learning run is executed by one learner only: it computes statistics of its "
      "rows, such as those of batch normalisation, and a learner has too few rows for "
      "them. Feed more rows, ask for fewer learners, or choose a synchroniser; wanted "
      "are ",
      kLeastRows, " rows for each learner."));
  return true;
}

absl::Status Trainer::CollectFetches(const Program& program,
                                     const std::vector<TaskOutcome>& outcomes,
                                     std::vector<tf::Tensor>* fetches) {
  const auto compiled = program.compiled();
  for (const FetchSource& fetch : compiled->fetches) {
    if (fetch.variable.has_value()) {
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

absl::StatusOr<Explanation> Trainer::Explain(const RunRequest& request) {
  TF_RETURN_IF_ERROR(OnOneHostOnly("explain"));
  Explanation explanation;
  TF_RETURN_IF_ERROR(PlanRun(request, &explanation.plan));
  const Program& program = *request.program;
  absl::MutexLock lock(&mu_);
  explanation.why_one_learner = WhyOne(program);
  if (explanation.why_one_learner.empty()) {
    explanation.why_one_learner = explanation.plan.ambiguous;
  }
  if (!explanation.why_one_learner.empty()) return explanation;
  explanation.rows = RowsToCompile(request, explanation.plan);
  explanation.recompile = explanation.rows.has_value();
  const auto compiled = program.compiled();
  explanation.types = compiled->traits.types;
  explanation.estimates = compiled->traits.estimates;
  return explanation;
}

}  // namespace tensorbow
