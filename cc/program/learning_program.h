// A learning run made executable on every learner: what it is fed and fetches, the task
// graph with its fused updates, and what is kept from run to run.
#ifndef TENSORBOW_CC_PROGRAM_LEARNING_PROGRAM_H_
#define TENSORBOW_CC_PROGRAM_LEARNING_PROGRAM_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/analysis/row_types/row_types.h"
#include "cc/analysis/run_analysis.h"
#include "cc/config/options.h"
#include "cc/feeds/feeds.h"
#include "cc/feeds/fetches.h"
#include "cc/graph/program_graph.h"
#include "cc/learner/learner.h"
#include "cc/learner/learner_group.h"
#include "cc/passes/program/resize_constants.h"
#include "cc/passes/task/share_variables.h"
#include "cc/program/learning_rates.h"
#include "cc/synchroniser/hosts/host_gradients.h"
#include "cc/synchroniser/synchroniser.h"
#include "tensorflow/core/public/session_options.h"

namespace tensorbow {

// Made by CompileLearningProgram(); what runs keep in it belongs to the Trainer.
struct LearningProgram {
  RunAnalysis analysis;
  bool replicated = true;  // learners have variables of their own
  RunSpec task_spec;       // what a task computes
  std::vector<FeedDeclaration> feeds;

  // Of the run's fetches, in order.
  struct Fetch {
    FetchDeclaration declaration;
    int task_fetch = -1;  // its number among the task's fetches, or
    const tensorflow::NodeDef* variable = nullptr;  // the variable it is
  };
  std::vector<Fetch> fetches;
  int rows_fetch = -1;  // the task's fetch that tells the rows of its data, or -1

  std::vector<std::unique_ptr<Learner::Program>> learners;
  LearningRates rates;                            // watched only where a drop restarts
  int num_gradients = 0;                          // averaged in a task
  std::shared_ptr<HostGradients> host_gradients;  // what hosts average, or null
  std::set<std::string> shared;       // variables of which learners have one copy
  std::vector<bool> corrects_itself;  // by trained variable, in the analysis' order
  std::vector<std::string> hidden_random_ops;
  // The rows for which the learners are compiled; nullopt if rows have no types: there
  // is one learner, or the options say so.
  std::optional<RowsOfRun> rows;
  std::shared_ptr<const RowTypes> types;
  // The ranks of feeds are not known yet: nothing has been compiled.
  bool awaits_feeds = false;
  // Whether a learner takes values of its own rows for those of all rows.
  bool own_values = false;
  bool exchanges = false;  // learners exchange values within tasks
  // The nodes that write sums over rows to trained variables; nullopt: not known.
  std::optional<std::set<std::string>> averaged;
  // The program without the ops that took the element that it is fed; or null.
  std::unique_ptr<ProgramGraph> cut;
  // The program made to take any number of rows, from which learners are compiled then;
  // or null.
  std::unique_ptr<ProgramGraph> any_rows;
  // The graph with exchanges, or with scaled learning rates, from which learners are
  // compiled then; or null.
  std::unique_ptr<ProgramGraph> exchanged;
  // Why one learner executes the runs, where several learners, which there were not at
  // first, cannot.
  std::string why_central;

  // Kept by runs.
  std::vector<int> variables;  // replicated ids: all,
  std::vector<int> written;    // those that tasks change,
  std::vector<int> one_copy;   // those of `shared`,
  // Those the synchroniser keeps together: first what this program trains, in the order
  // of its analysis.
  std::vector<int> trained;
  int num_trained = -1;                      // in the session, when `trained` was made
  std::unique_ptr<TrainedSet> set;           // made in the first run
  int64_t first_iteration = 0;               // of the set, when it is made
  bool measured_memory = false;              // on accelerators, in the first run
  std::atomic<bool> warned_of_feeds{false};  // that they cannot be divided
  // Of trained variables that tasks read and do not write; ids, and where they lie.
  std::vector<int> only_read;
  std::unique_ptr<TrainedSet> only_read_set;

  // What it has of the learners goes; what runs have got to stays.
  void ForgetLearners();

  // What hosts tell it by: the variables that it reads and writes.
  int64_t Fingerprint() const;
};

// What learners are to execute. The graph, the run, and what is known of them, which
// outlive it.
struct RunToCompile {
  const ProgramGraph& graph;
  const RunSpec& spec;
  const RunAnalysis& analysis;
  const SparseFeeds& sparse_feeds;  // feeds that are parts of sparse tensors
  // The rows of the feeds; null: by their declarations.
  const RowsOfRun* rows;
};

// The tensor that tells how many rows of data the run takes from the graph; empty if
// there is none. A fetch of it may be added to the run.
std::string RowsTensor(const ProgramGraph& graph, const RunSpec& spec);

// Says which variables learners are to have one copy of, of those that can be.
using AgreeOnSharing = std::function<std::set<std::string>(const SharableVariables&)>;

// Finds the parts of a run: how its feeds are divided, which fetches are variables,
// where rows are counted. `fixed`: feeds of a fixed number of rows, if the graph takes
// any. `*program` refers to the nodes of `graph`.
absl::Status DissectRun(const ProgramGraph& graph, const RunSpec& spec,
                        const SparseFeeds& sparse_feeds, const FixedRows& fixed,
                        const Options& options, bool replicated,
                        LearningProgram* program);

// The rows of a run by the declarations of its feeds; nullopt if a rank is not known.
std::optional<RowsOfRun> DeclaredRows(const std::vector<FeedDeclaration>& feeds);
// The rows of a run that is fed these.
RowsOfRun PlannedRows(const std::vector<FeedDeclaration>& declarations,
                      const FeedPlan& plan,
                      const std::vector<tensorflow::Tensor>& feeds);

// Sets the rule of each fetch by its type. Returns why a fetch cannot be put together,
// or an empty text.
std::string SetFetchRules(const RowTypes& types, bool own_values,
                          LearningProgram* program);

// Compiles `program`, which has been dissected, from `graph`. `averages`: what several
// learners average; InvalidArgument if the run's gradients are wanted and not found.
absl::Status CompileLearningProgram(
    const ProgramGraph& graph, const RunAnalysis& analysis, const Options& options,
    const tensorflow::SessionOptions& session_options, Traits::Averages averages,
    const AgreeOnSharing& agree, LearnerGroup* learners, LearningProgram* program);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PROGRAM_LEARNING_PROGRAM_H_
