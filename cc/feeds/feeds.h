// Divides the feeds of a learning run into learning tasks.
//
// A feed is divided by rows if its leading dimension is unknown. If it is fixed, the
// fed one must be a multiple. All such feeds must agree on the number of rows. Scalars
// and other feeds go whole to every task. If the shapes do not decide, the plan says
// why; if they leave a doubt, it names it. No row is dropped or used twice. Pure
// functions.
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

// The facts about a fed tensor before anything is fed.
struct FeedDeclaration {
  std::string name;                      // "x:0"
  tensorflow::PartialTensorShape shape;  // static
  enum class Division { kByShape, kShard, kReplicate, kSparse };
  Division division = Division::kByShape;  // the user's choice, or a sparse feed
  // The parts of a sparse tensor (kSparse), if all are fed; and whether the user has
  // named one to be divided.
  std::optional<SparseParts> sparse;
  bool named = false;
  bool of_pipeline = false;  // or of a queue or a Python function
  // The program may accept any number of rows although the shape fixes it.
  bool any_rows = false;
};

struct FeedOptions {
  int num_learners = 1;
  int64_t batch_size = 0;  // rows of a task; 0: one shard per learner
  // The rows of each task, in order; ignored unless their sum is the number of fed
  // rows.
  std::vector<int64_t> task_rows;
  // Gives a run of 0 rows to one learner, instead of an error.
  bool takes_no_rows = false;
};

struct FeedPlan {
  struct Rows {
    int64_t begin;
    int64_t end;
    int64_t count() const { return end - begin; }
  };
  // The tasks; empty if nothing is divided: then every learner has one task with all
  // feeds whole.
  std::vector<Rows> tasks;
  std::vector<bool> divided;        // by feed
  std::vector<SparseParts> sparse;  // whose parts are divided together
  // One shard per learner, by position; not first come, first served.
  bool one_shard_per_learner = false;
  // Nothing to prove: the user has named all divided feeds, or tasks are batches of a
  // fixed number of rows.
  bool trusted = false;
  // The evidence against the division in the shapes, unless it is proved; else empty.
  std::string doubt;
  // The reason why the run cannot be divided; empty if it can.
  std::string ambiguous;
};

// Plans the division. InvalidArgument for feeds that no division can fit.
absl::Status PlanFeeds(const std::vector<FeedDeclaration>& declarations,
                       const std::vector<tensorflow::Tensor>& feeds,
                       const FeedOptions& options, FeedPlan* plan);

// Returns a plan of one task with all feeds whole.
FeedPlan WithoutDivision(const FeedPlan& plan,
                         const std::vector<tensorflow::Tensor>& feeds);

// Returns the same values, aligned as kernels require; copies only if they are not.
tensorflow::Tensor Aligned(const tensorflow::Tensor& tensor);

// Returns the rows of the divided feeds.
int64_t RowsOfFeeds(const FeedPlan& plan, const std::vector<tensorflow::Tensor>& feeds);

// Returns the feeds of one task, aligned: these rows of the divided ones, as a view if
// it is aligned, else a copy; all rows without `rows`.
std::vector<tensorflow::Tensor> FeedsOfTask(
    const FeedPlan& plan, const std::optional<FeedPlan::Rows>& rows,
    const std::vector<tensorflow::Tensor>& feeds);

// Returns feeds in which every row of the divided ones stands twice, one copy of all
// rows after the other.
absl::StatusOr<std::vector<tensorflow::Tensor>> FeedsTwice(
    const FeedPlan& plan, std::vector<tensorflow::Tensor> feeds);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_FEEDS_FEEDS_H_
