// A learning run compiled for learners: its feeds and fetches, and the facts that its
// passes found. Made by a Compiler and never changed, but replaced as a whole.
#ifndef TENSORBOW_CC_PROGRAM_COMPILED_PROGRAM_H_
#define TENSORBOW_CC_PROGRAM_COMPILED_PROGRAM_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/analysis/row_types/row_types.h"
#include "cc/feeds/feeds.h"
#include "cc/feeds/fetches.h"
#include "cc/graph/program_graph.h"
#include "cc/learner/learner.h"
#include "cc/passes/pass.h"
#include "cc/program/learning_rates.h"
#include "cc/program/task_shapes.h"
#include "cc/synchroniser/hosts/host_gradients.h"
#include "tensorflow/core/framework/node_def.pb.h"

namespace tensorbow {

// The source of a fetch's value: a fetch of the tasks, a variable, or deferred nodes.
struct FetchSource {
  FetchDeclaration declaration;
  int task_fetch = -1;                          // number among the tasks' fetches
  std::optional<tensorflow::NodeDef> variable;  // set instead of a fetch
  bool deferred = false;
};

// An input of the deferred nodes (deferred_fetches.h).
struct DeferredInput {
  FetchDeclaration declaration;
  int task_fetch = -1;  // number among the tasks' fetches, or -1
  int run_feed = -1;    // number among the run's feeds, or -1
};

struct CompiledProgram {
  bool replicated = true;              // learners have variables of their own
  RunSpec task;                        // the feeds, fetches and targets of a task
  std::vector<FeedDeclaration> feeds;  // of the run, in order
  std::vector<FetchSource> fetches;    // of the run, in order
  std::vector<DeferredInput> deferred_inputs;
  int rows_fetch = -1;  // the task's fetch whose size is its rows, or -1
  // The rows that it was compiled for; nullopt if rows are not typed, for one learner
  // or by the options.
  std::optional<RowsOfRun> rows;
  // Nothing is compiled yet: the rank of a feed is unknown before it is fed.
  bool awaits_feeds = false;
  TaskTraits traits;
  std::shared_ptr<HostGradients> host_gradients;  // averages gradients; or null
  std::vector<std::string> hidden_random_ops;
};

// The executables of a compiled program. Destroyed before the learners.
struct LearnerPrograms {
  using Tasks = std::vector<std::unique_ptr<Learner::Program>>;  // by learner

  explicit LearnerPrograms(ShapeCounts shape_counts)
      : counts(std::move(shape_counts)) {}

  // Returns the executable for a task with these feeds.
  const Learner::Program& Of(int learner,
                             const std::vector<tensorflow::Tensor>& feeds) const;

  Tasks tasks;
  // Executables for tasks of certain shapes, and the shapes so far.
  std::vector<std::pair<TaskShapes, Tasks>> by_shapes;
  ShapeCounts counts;
  LearningRates rates;  // watched only if a drop restarts
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PROGRAM_COMPILED_PROGRAM_H_
