// How the feeds of a learning run become learning tasks.
//
// Feeds whose tensor has an unknown leading dimension (or whose fed leading dimension
// is a multiple of a fixed one) and that agree on the number of rows are divided by
// rows; scalars and other feeds go whole to every task. Where their shapes do not tell,
// the plan says why; where they leave a doubt, it says what. No row is dropped or used
// twice. Pure functions.
#ifndef TENSORBOW_CC_FEEDS_FEEDS_H_
#define TENSORBOW_CC_FEEDS_FEEDS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/feeds/sparse_rows.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tensorbow {

// What is known of a fed tensor before anything is fed.
struct FeedDeclaration {
  std::string name;                      // "x:0"
  tensorflow::PartialTensorShape shape;  // static
  enum class Division { kByShape, kShard, kReplicate, kSparse };
  Division division = Division::kByShape;  // what the user said, or a sparse feed
  // Of a part of a sparse tensor (kSparse), where all are among the feeds; and whether
  // the user has named one to be divided.
  std::optional<SparseParts> sparse;
  bool named = false;
  bool of_pipeline = false;  // or of a queue or a Python function
  // The program may take any number of rows where the shape says a fixed one.
  bool any_rows = false;
};

struct FeedOptions {
  int num_learners = 1;
  int64_t batch_size = 0;  // rows of a task; 0: one shard per learner
  // The rows of each task, in order; counts only where they add up to the rows fed.
  std::vector<int64_t> task_rows;
};

struct FeedPlan {
  struct Rows {
    int64_t begin;
    int64_t end;
    int64_t count() const { return end - begin; }
  };
  // By task; empty if nothing is divided: then every learner gets one task with all
  // feeds whole.
  std::vector<Rows> tasks;
  std::vector<bool> divided;        // by feed
  std::vector<SparseParts> sparse;  // whose parts are divided together
  // One shard per learner, by position (not handed out first come, first served).
  bool one_shard_per_learner = false;
  // The user has named all divided feeds, or tasks are batches of a fixed number of
  // rows: there is nothing to prove.
  bool trusted = false;
  // What in the shapes speaks against the division, if it is not proved; else empty.
  std::string doubt;
  // Why the run cannot be divided; empty if it can.
  std::string ambiguous;
};

// InvalidArgument for feeds that no division can make sense of.
absl::Status PlanFeeds(const std::vector<FeedDeclaration>& declarations,
                       const std::vector<tensorflow::Tensor>& feeds,
                       const FeedOptions& options, FeedPlan* plan);

// All feeds whole, for one task.
FeedPlan WithoutDivision(const FeedPlan& plan,
                         const std::vector<tensorflow::Tensor>& feeds);

// The same values, aligned as kernels want them: a copy only where they are not.
tensorflow::Tensor Aligned(const tensorflow::Tensor& tensor);

// The rows of the feeds that are divided.
int64_t RowsOfFeeds(const FeedPlan& plan, const std::vector<tensorflow::Tensor>& feeds);

// The feeds of one task, aligned: of those that are divided these rows, a view where
// that allows it, else a copy; all rows without them.
std::vector<tensorflow::Tensor> FeedsOfTask(
    const FeedPlan& plan, const std::optional<FeedPlan::Rows>& rows,
    const std::vector<tensorflow::Tensor>& feeds);

// Feeds with every row of those that are divided given twice, one copy of all after the
// other.
absl::StatusOr<std::vector<tensorflow::Tensor>> FeedsTwice(
    const FeedPlan& plan, std::vector<tensorflow::Tensor> feeds);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_FEEDS_FEEDS_H_
