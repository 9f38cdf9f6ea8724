#include "cc/program/decision.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cc/program/run_rules.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace {

// Below, batch normalisation trains worse (Wu and He, Group Normalization, 2018).
constexpr int64_t kLeastRows = 16;

// Returns whether a learner with one row would compute other shapes than all others.
bool NeedsTwoRows(const CompiledProgram& program) {
  if (program.traits.types == nullptr) return false;
  const std::vector<RowNeed>& needs = program.traits.types->needs;
  return std::any_of(needs.begin(), needs.end(), [](const RowNeed& need) {
    return need.kind == RowNeed::Kind::kTwoRows;
  });
}

// Returns whether one of several tasks has one row.
bool HasLoneRow(const FeedPlan& plan) {
  return plan.tasks.size() > 1 &&
         std::any_of(plan.tasks.begin(), plan.tasks.end(),
                     [](const FeedPlan::Rows& rows) { return rows.count() == 1; });
}

// Returns whether learners would estimate values from too few rows.
bool HasTooFewRows(const CompiledProgram& program, const FeedPlan& plan,
                   const Options& options) {
  return program.traits.estimates && options.algorithm == Options::Algorithm::kAuto &&
         options.divides_batches() && options.num_hosts() == 1 &&
         plan.tasks.size() >= 2 && plan.tasks.back().count() < kLeastRows;
}

std::string TooFewRowsText() {
  return absl::StrCat(
      "A learning run is executed by one learner only: it computes statistics of its "
      "rows, such as those of batch normalisation, and a learner has too few rows for "
      "them. Feed more rows, ask for fewer learners, or choose a synchroniser; wanted "
      "are ",
      kLeastRows, " rows for each learner.");
}

}  // namespace

bool MayDivide(const Options& options, int num_learners) {
  return num_learners > 1 || options.rows_of_batch() > 0;
}

absl::StatusOr<FeedPlan> PlanRun(const CompiledProgram& program,
                                 const std::vector<tensorflow::Tensor>& feeds,
                                 const std::vector<int64_t>& task_rows,
                                 const Options& options, int num_learners) {
  FeedOptions feed_options;
  feed_options.num_learners = num_learners;
  feed_options.batch_size = options.rows_of_batch();
  feed_options.task_rows = task_rows;
  feed_options.takes_no_rows = options.divides_batches() && options.num_hosts() == 1;
  FeedPlan plan;
  TF_RETURN_IF_ERROR(PlanFeeds(program.feeds, feeds, feed_options, &plan));
  if (options.divides_batches() && NeedsTwoRows(program)) {
    while (HasLoneRow(plan) && --feed_options.num_learners > 0) {
      feed_options.task_rows.clear();
      plan = FeedPlan();
      TF_RETURN_IF_ERROR(PlanFeeds(program.feeds, feeds, feed_options, &plan));
    }
  }
  // A doubt may not matter if rows have types.
  if (plan.ambiguous.empty() && !options.proof) plan.ambiguous = plan.doubt;
  if (!plan.ambiguous.empty()) plan.tasks.clear();
  return plan;
}

std::optional<RowsOfRun> RowsToCompile(const CompiledProgram& program,
                                       const std::vector<tensorflow::Tensor>& feeds,
                                       const FeedPlan& plan, const Options& options,
                                       int num_learners) {
  if (!options.proof || !MayDivide(options, num_learners) ||
      !program.rows.has_value()) {
    return std::nullopt;
  }
  const bool divides = plan.tasks.size() > 1 && !plan.trusted;
  if (!divides && !program.awaits_feeds) return std::nullopt;
  RowsOfRun rows = PlannedRows(program.feeds, plan, feeds);
  if (!program.awaits_feeds && rows == *program.rows) return std::nullopt;
  return rows;
}

std::string WhyNotDivided(const CompiledProgram& program, const FeedPlan& plan,
                          const Options& options) {
  return HasTooFewRows(program, plan, options) ? TooFewRowsText() : "";
}

std::string AmbiguousFeedsText(const std::string& why) {
  return absl::StrCat(
      "A learning run was executed by one learner only, because its feeds cannot be "
      "divided without guessing: ",
      why,
      ". Name the feeds that have one row per sample in Options(shard=[...]) and "
      "those that every learner needs whole in Options(replicate=[...]).");
}

}  // namespace tensorbow
