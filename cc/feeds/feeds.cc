#include "cc/feeds/feeds.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns whether a dimension other than the first is statically unknown and has `rows`
// elements: it may be the batch (a recurrent state [layers, batch, units]).
bool BatchMayLieElsewhere(const FeedDeclaration& declaration, const tf::Tensor& feed,
                          int64_t rows) {
  for (int d = 1; d < feed.dims(); ++d) {
    const bool unknown =
        declaration.shape.unknown_rank() || declaration.shape.dim_size(d) < 0;
    if (unknown && feed.dim_size(d) == rows) return true;
  }
  return false;
}

std::vector<FeedPlan::Rows> Cut(int64_t rows, int64_t rows_per_task) {
  std::vector<FeedPlan::Rows> tasks;
  for (int64_t begin = 0; begin < rows; begin += rows_per_task) {
    tasks.push_back({begin, std::min(rows, begin + rows_per_task)});
  }
  return tasks;
}

// Divides rows into shards whose sizes differ by at most one. With fewer rows than
// learners, some learners skip the run; with none, all but one.
std::vector<FeedPlan::Rows> Share(int64_t rows, int num_learners) {
  std::vector<FeedPlan::Rows> tasks;
  const int64_t shards = std::clamp<int64_t>(rows, 1, num_learners);
  int64_t begin = 0;
  for (int64_t k = 0; k < shards; ++k) {
    const int64_t end = begin + rows / shards + (k < rows % shards ? 1 : 0);
    tasks.push_back({begin, end});
    begin = end;
  }
  return tasks;
}

// Makes a plan, step by step; plan->ambiguous and plan->doubt receive the reasons
// against it.
class Planner {
 public:
  Planner(const std::vector<FeedDeclaration>& declarations,
          const std::vector<tf::Tensor>& feeds, const FeedOptions& options,
          FeedPlan* plan)
      : declarations_(declarations), feeds_(feeds), options_(options), plan_(plan) {
    *plan_ = FeedPlan();
    plan_->divided.assign(feeds.size(), false);
  }

  absl::Status Plan() {
    for (size_t i = 0; i < feeds_.size(); ++i) TF_RETURN_IF_ERROR(FindRowsOf(i));
    if (rows_ == 0 && decided() && !options_.takes_no_rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("Got a batch of 0 rows ('", rows_of_,
                       "'); a learning run wants at least 1 row"));
    }
    if (rows_ < 0 && decided()) FindElementWithoutRows();
    if (rows_ < 0 && !fixed_.empty() && decided()) {
      plan_->ambiguous = absl::StrCat("'", declarations_[fixed_[0]].name,
                                      "' is declared with a fixed number of rows");
    }
    if (rows_ < 0 || !decided()) return absl::OkStatus();
    TF_RETURN_IF_ERROR(MakeTasks());
    if (plan_->tasks.size() > 1) {
      plan_->trusted = rows_per_task_ > 0 || AllNamed();
      FindDoubts();
    }
    return absl::OkStatus();
  }

 private:
  using Division = FeedDeclaration::Division;

  bool decided() const { return plan_->ambiguous.empty(); }

  // Finds whether feed `i` is divided, and the number of rows that follows.
  absl::Status FindRowsOf(size_t i) {
    const FeedDeclaration& declaration = declarations_[i];
    const tf::Tensor& feed = feeds_[i];
    if (declaration.division == Division::kReplicate) return absl::OkStatus();
    if (declaration.division == Division::kSparse) {
      FindRowsOfSparse(i);
      return absl::OkStatus();
    }
    if (feed.dims() == 0) {
      if (declaration.division != Division::kShard) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(
          "shard= names '", declaration.name,
          "', which was fed a scalar; only feeds with rows can be divided"));
    }
    if (!declaration.shape.unknown_rank() && declaration.shape.dims() != feed.dims()) {
      plan_->ambiguous =
          absl::StrCat("'", declaration.name, "', which has ", declaration.shape.dims(),
                       " dimensions, was fed ", feed.dims());
      return absl::OkStatus();
    }
    const int64_t leading =
        declaration.shape.unknown_rank() ? -1 : declaration.shape.dim_size(0);
    const bool one_batch = leading >= 0 && leading == feed.dim_size(0);
    if (one_batch && !declaration.any_rows &&
        declaration.division != Division::kShard) {
      fixed_.push_back(i);
      return absl::OkStatus();
    }
    if (leading >= 0 && !(one_batch && declaration.any_rows)) {
      TF_RETURN_IF_ERROR(SetRowsOfTasks(declaration, feed, leading));
    }
    SetRows(declaration.name, feed.dim_size(0));
    plan_->divided[i] = true;
    return absl::OkStatus();
  }

  // Refuses an element without rows: every learner would train on the same data.
  void FindElementWithoutRows() {
    for (const FeedDeclaration& declaration : declarations_) {
      if (!declaration.of_pipeline) continue;
      plan_->ambiguous = absl::StrCat(
          "'", declaration.name,
          "', taken from a pipeline, a queue or a Python function, has no rows; "
          "Options(elements=\"one_each\") gives each learner an element of its own");
    }
  }

  // Divides the parts of a sparse tensor together.
  void FindRowsOfSparse(size_t i) {
    const FeedDeclaration& declaration = declarations_[i];
    if (!declaration.sparse.has_value()) {
      plan_->ambiguous = absl::StrCat("'", declaration.name, "' is a sparse feed");
      return;
    }
    const SparseParts& parts = *declaration.sparse;
    plan_->divided[i] = true;
    if (static_cast<int>(i) != parts.shape) return;
    const std::string why =
        WhyNotByRows(feeds_[parts.indices], feeds_[parts.values], feeds_[parts.shape]);
    if (!why.empty()) {
      plan_->ambiguous =
          absl::StrCat("'", declaration.name, "' belongs to a sparse feed ", why);
      return;
    }
    plan_->sparse.push_back(parts);
    SetRows(declaration.name, NumRows(feeds_[i]));
  }

  // Divides a feed of a fixed number of rows, which is given a multiple of them.
  absl::Status SetRowsOfTasks(const FeedDeclaration& declaration,
                              const tf::Tensor& feed, int64_t leading) {
    if (leading == 0 || feed.dim_size(0) % leading != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Cannot feed value of shape ", feed.shape().DebugString(), " for Tensor '",
          declaration.name, "', which has shape ", declaration.shape.DebugString(),
          "; wanted ", leading, " rows or a multiple of them"));
    }
    if (rows_per_task_ > 0 && rows_per_task_ != leading) {
      plan_->ambiguous =
          absl::StrCat("'", rows_per_task_of_, "' takes ", rows_per_task_,
                       " rows at a time, '", declaration.name, "' takes ", leading);
    }
    rows_per_task_ = leading;
    rows_per_task_of_ = declaration.name;
    return absl::OkStatus();
  }

  void SetRows(const std::string& name, int64_t rows) {
    if (rows_ < 0) {
      rows_ = rows;
      rows_of_ = name;
    } else if (rows_ != rows && decided()) {
      plan_->ambiguous = absl::StrCat("'", rows_of_, "' has ", rows_, " rows, '", name,
                                      "' has ", rows);
    }
  }

  absl::Status MakeTasks() {
    if (rows_per_task_ > 0 && options_.batch_size > 0 &&
        options_.batch_size != rows_per_task_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "batch_size is ", options_.batch_size, ", but '", rows_per_task_of_,
          "' takes exactly ", rows_per_task_, " rows; leave batch_size out"));
    }
    const int64_t rows_per_task =
        rows_per_task_ > 0 ? rows_per_task_ : options_.batch_size;
    const std::vector<int64_t>& given = options_.task_rows;
    if (!given.empty() &&
        std::accumulate(given.begin(), given.end(), int64_t{0}) == rows_) {
      int64_t begin = 0;
      for (int64_t count : given) {
        plan_->tasks.push_back({begin, begin + count});
        begin += count;
      }
      plan_->one_shard_per_learner =
          static_cast<int64_t>(plan_->tasks.size()) <= options_.num_learners;
    } else if (rows_per_task > 0) {
      plan_->tasks = Cut(rows_, rows_per_task);
    } else {
      plan_->tasks = Share(rows_, options_.num_learners);
      plan_->one_shard_per_learner = true;
    }
    return absl::OkStatus();
  }

  // Returns whether the user has named every divided feed.
  bool AllNamed() const {
    for (size_t i = 0; i < feeds_.size(); ++i) {
      if (plan_->divided[i] && declarations_[i].division != Division::kShard &&
          !declarations_[i].named) {
        return false;
      }
    }
    return true;
  }

  // Finds doubts. Rows must not be guessed if they may be columns: in a matrix between
  // the rows, or a batch as long as its sequences. Feeds that stay whole must not look
  // like rows.
  void FindDoubts() {
    for (size_t i = 0; i < feeds_.size() && plan_->doubt.empty(); ++i) {
      if (!plan_->divided[i] || declarations_[i].division == Division::kShard) continue;
      if (declarations_[i].division == Division::kSparse) {
        FindDoubtsOfSparse(i);
        continue;
      }
      if (declarations_[i].any_rows && rows_per_task_ == 0) {
        plan_->doubt = absl::StrCat("'", declarations_[i].name,
                                    "' is declared with a fixed number of rows");
      }
      if (!BatchMayLieElsewhere(declarations_[i], feeds_[i], rows_)) continue;
      plan_->doubt = absl::StrCat(
          "'", declarations_[i].name, "' of shape ", feeds_[i].shape().DebugString(),
          " has more than one dimension of ", rows_, ", the number of rows");
    }
    for (size_t i = 0; i < feeds_.size() && plan_->doubt.empty(); ++i) {
      if (plan_->divided[i] || declarations_[i].division == Division::kReplicate ||
          feeds_[i].dims() == 0) {
        continue;
      }
      if (feeds_[i].dim_size(0) != rows_ &&
          !BatchMayLieElsewhere(declarations_[i], feeds_[i], rows_)) {
        continue;
      }
      plan_->doubt = absl::StrCat("'", declarations_[i].name, "' of fixed shape ",
                                  declarations_[i].shape.DebugString(),
                                  " may have an element for each of the ", rows_,
                                  " rows of '", rows_of_, "'");
    }
  }

  void FindDoubtsOfSparse(size_t i) {
    const SparseParts& parts = *declarations_[i].sparse;
    if (static_cast<int>(i) != parts.shape || declarations_[i].named) return;
    const auto* const sizes = static_cast<const int64_t*>(feeds_[i].data());
    for (int64_t d = 1; d < feeds_[i].dim_size(0); ++d) {
      if (sizes[d] != rows_) continue;
      plan_->doubt = absl::StrCat("the sparse feed of '", declarations_[i].name,
                                  "' has more than one dimension of ", rows_,
                                  ", the number of rows");
    }
  }

  const std::vector<FeedDeclaration>& declarations_;
  const std::vector<tf::Tensor>& feeds_;
  const FeedOptions& options_;
  FeedPlan* const plan_;
  int64_t rows_ = -1;
  std::string rows_of_;        // the feed that determined the number of rows
  int64_t rows_per_task_ = 0;  // from a fixed leading dimension
  std::string rows_per_task_of_;
  std::vector<size_t> fixed_;  // feeds with exactly the declared number of rows
};

}  // namespace

absl::Status PlanFeeds(const std::vector<FeedDeclaration>& declarations,
                       const std::vector<tf::Tensor>& feeds, const FeedOptions& options,
                       FeedPlan* plan) {
  return Planner(declarations, feeds, options, plan).Plan();
}

FeedPlan WithoutDivision(const FeedPlan& plan, const std::vector<tf::Tensor>& feeds) {
  int64_t rows = plan.tasks.empty() ? 1 : plan.tasks.back().end;
  for (size_t i = 0; i < feeds.size() && plan.tasks.empty(); ++i) {
    if (feeds[i].dims() > 0) rows = std::max(rows, feeds[i].dim_size(0));
  }
  FeedPlan whole;
  whole.divided.assign(feeds.size(), false);
  whole.tasks.push_back({0, rows});
  return whole;
}

tf::Tensor Aligned(const tf::Tensor& tensor) {
  return tensor.IsAligned() ? tensor : tf::tensor::DeepCopy(tensor);
}

int64_t RowsOfFeeds(const FeedPlan& plan, const std::vector<tf::Tensor>& feeds) {
  if (!plan.sparse.empty()) return NumRows(feeds[plan.sparse[0].shape]);
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (plan.divided[i]) return feeds[i].dim_size(0);
  }
  return 0;
}

namespace {

// Replaces the parts of every divided sparse tensor.
template <typename F>
void ForSparse(const FeedPlan& plan, const std::vector<tf::Tensor>& feeds, F change,
               std::vector<tf::Tensor>* changed) {
  for (const SparseParts& parts : plan.sparse) {
    SparseValue value = change(
        SparseValue{feeds[parts.indices], feeds[parts.values], feeds[parts.shape]});
    (*changed)[parts.indices] = std::move(value.indices);
    (*changed)[parts.values] = std::move(value.values);
    (*changed)[parts.shape] = std::move(value.shape);
  }
}

std::vector<bool> IsSparse(const FeedPlan& plan) {
  std::vector<bool> sparse(plan.divided.size());
  for (const SparseParts& parts : plan.sparse) {
    for (int part : {parts.indices, parts.values, parts.shape}) sparse[part] = true;
  }
  return sparse;
}

}  // namespace

std::vector<tf::Tensor> FeedsOfTask(const FeedPlan& plan,
                                    const std::optional<FeedPlan::Rows>& rows,
                                    const std::vector<tf::Tensor>& feeds) {
  const std::vector<bool> sparse = IsSparse(plan);
  std::vector<tf::Tensor> own(feeds.size());
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (!rows.has_value() || !plan.divided[i]) {
      own[i] = Aligned(feeds[i]);
    } else if (!sparse[i]) {
      own[i] = Aligned(feeds[i].Slice(rows->begin, rows->end));
    }
  }
  if (!rows.has_value()) return own;
  ForSparse(
      plan, feeds,
      [&rows](const SparseValue& all) { return RowsOf(all, rows->begin, rows->end); },
      &own);
  return own;
}

absl::StatusOr<std::vector<tf::Tensor>> FeedsTwice(const FeedPlan& plan,
                                                   std::vector<tf::Tensor> feeds) {
  const std::vector<bool> sparse = IsSparse(plan);
  const std::vector<tf::Tensor> once = feeds;
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (!plan.divided[i] || sparse[i]) continue;
    tf::Tensor both;
    TF_RETURN_IF_ERROR(tf::tensor::Concat({feeds[i], feeds[i]}, &both));
    feeds[i] = std::move(both);
  }
  ForSparse(plan, once, &RowsTwice, &feeds);
  return feeds;
}

}  // namespace tensorbow
