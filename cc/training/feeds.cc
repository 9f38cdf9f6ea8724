#include "cc/training/feeds.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Whether a dimension other than the first is statically unknown and turns out to be
// `rows`: the batch may lie along it (a recurrent state [layers, batch, units]).
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

// Sizes differ by at most one; with fewer rows than learners the others sit out.
std::vector<FeedPlan::Rows> Share(int64_t rows, int num_learners) {
  std::vector<FeedPlan::Rows> tasks;
  const int64_t shards = std::min<int64_t>(rows, num_learners);
  int64_t begin = 0;
  for (int64_t k = 0; k < shards; ++k) {
    const int64_t end = begin + rows / shards + (k < rows % shards ? 1 : 0);
    tasks.push_back({begin, end});
    begin = end;
  }
  return tasks;
}

}  // namespace

absl::Status PlanFeeds(const std::vector<FeedDeclaration>& declarations,
                       const std::vector<tf::Tensor>& feeds, const FeedOptions& options,
                       FeedPlan* plan) {
  using Division = FeedDeclaration::Division;
  *plan = FeedPlan();
  plan->divided.assign(feeds.size(), false);

  int64_t rows = -1;
  std::string rows_of;        // the feed that told the number of rows
  int64_t rows_per_task = 0;  // from a fixed leading dimension
  std::string rows_per_task_of;
  std::vector<size_t> fixed;  // exactly as many rows as declared
  for (size_t i = 0; i < feeds.size(); ++i) {
    const FeedDeclaration& declaration = declarations[i];
    const tf::Tensor& feed = feeds[i];
    if (declaration.division == Division::kReplicate) continue;
    if (declaration.division == Division::kSparse) {
      plan->ambiguous = absl::StrCat("'", declaration.name, "' is a sparse feed");
      continue;
    }
    if (feed.dims() == 0) {
      if (declaration.division == Division::kShard) {
        return absl::InvalidArgumentError(absl::StrCat(
            "shard= names '", declaration.name,
            "', which was fed a scalar; only feeds with rows can be divided"));
      }
      continue;
    }
    const int64_t leading =
        declaration.shape.unknown_rank() ? -1 : declaration.shape.dim_size(0);
    if (leading >= 0) {
      if (leading == feed.dim_size(0) && declaration.division != Division::kShard) {
        fixed.push_back(i);
        continue;
      }
      if (leading == 0 || feed.dim_size(0) % leading != 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "Cannot feed value of shape ", feed.shape().DebugString(), " for Tensor '",
            declaration.name, "', which has shape ", declaration.shape.DebugString(),
            "; wanted ", leading, " rows or a multiple of them"));
      }
      if (rows_per_task > 0 && rows_per_task != leading) {
        plan->ambiguous =
            absl::StrCat("'", rows_per_task_of, "' takes ", rows_per_task,
                         " rows at a time, '", declaration.name, "' takes ", leading);
      }
      rows_per_task = leading;
      rows_per_task_of = declaration.name;
    }
    if (rows >= 0 && rows != feed.dim_size(0) && plan->ambiguous.empty()) {
      plan->ambiguous = absl::StrCat("'", rows_of, "' has ", rows, " rows, '",
                                     declaration.name, "' has ", feed.dim_size(0));
    }
    if (rows < 0) {
      rows = feed.dim_size(0);
      rows_of = declaration.name;
    }
    plan->divided[i] = true;
  }
  if (rows == 0 && plan->ambiguous.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Got a batch of 0 rows ('", rows_of,
                     "'); a learning run wants at least 1 row"));
  }
  if (rows < 0) {
    if (!fixed.empty() && plan->ambiguous.empty()) {
      plan->ambiguous = absl::StrCat("'", declarations[fixed[0]].name,
                                     "' is one batch of a fixed number of rows");
    }
    return absl::OkStatus();
  }
  if (!plan->ambiguous.empty()) return absl::OkStatus();

  if (rows_per_task > 0 && options.batch_size > 0 &&
      options.batch_size != rows_per_task) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size is ", options.batch_size, ", but '", rows_per_task_of,
                     "' takes exactly ", rows_per_task, " rows; leave batch_size out"));
  }
  if (rows_per_task == 0) rows_per_task = options.batch_size;
  if (std::accumulate(options.task_rows.begin(), options.task_rows.end(), int64_t{0}) ==
      rows) {
    int64_t begin = 0;
    for (int64_t count : options.task_rows) {
      plan->tasks.push_back({begin, begin + count});
      begin += count;
    }
    plan->one_shard_per_learner =
        static_cast<int64_t>(plan->tasks.size()) <= options.num_learners;
  } else if (rows_per_task > 0) {
    plan->tasks = Cut(rows, rows_per_task);
  } else {
    plan->tasks = Share(rows, options.num_learners);
    plan->one_shard_per_learner = true;
  }
  if (plan->tasks.size() == 1) return absl::OkStatus();

  // Nor must rows be guessed where they may be columns: a matrix between the rows, a
  // batch that happens to be as long as its sequences.
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (!plan->divided[i] || declarations[i].division == Division::kShard) continue;
    if (BatchMayLieElsewhere(declarations[i], feeds[i], rows)) {
      plan->ambiguous = absl::StrCat("'", declarations[i].name, "' of shape ",
                                     feeds[i].shape().DebugString(), " has the ", rows,
                                     " rows in more than one dimension");
      return absl::OkStatus();
    }
  }
  // Feeds that stay whole must not look as if they belonged to the rows.
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (plan->divided[i] || declarations[i].division == Division::kReplicate ||
        feeds[i].dims() == 0) {
      continue;
    }
    if (feeds[i].dim_size(0) == rows ||
        BatchMayLieElsewhere(declarations[i], feeds[i], rows)) {
      plan->ambiguous =
          absl::StrCat("'", declarations[i].name, "' of fixed shape ",
                       declarations[i].shape.DebugString(), " may belong to the ", rows,
                       " rows of '", rows_of, "'");
      return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

tf::Tensor Aligned(const tf::Tensor& tensor) {
  return tensor.IsAligned() ? tensor : tf::tensor::DeepCopy(tensor);
}

std::vector<tf::Tensor> FeedsOfTask(const FeedPlan& plan, int64_t task,
                                    const std::vector<tf::Tensor>& feeds) {
  std::vector<tf::Tensor> own;
  own.reserve(feeds.size());
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (plan.tasks.size() > 1 && plan.divided[i]) {
      const FeedPlan::Rows& rows = plan.tasks[task];
      own.push_back(Aligned(feeds[i].Slice(rows.begin, rows.end)));
    } else {
      own.push_back(Aligned(feeds[i]));
    }
  }
  return own;
}

}  // namespace tensorbow
