// A learning run made executable on every learner: what it is fed and fetches, the task
// graph with its fused updates, and what is kept from run to run.
#ifndef TENSORBOW_CC_PROGRAM_LEARNING_PROGRAM_H_
#define TENSORBOW_CC_PROGRAM_LEARNING_PROGRAM_H_

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
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
#include "cc/training/division.h"
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

  // A copy of a lone learner's task graph as it was built. CheckGradients() takes it.
  std::unique_ptr<TaskGraph> built;
  std::vector<std::unique_ptr<Learner::Program>> learners;
  LearningRates rates;                            // watched only where a drop restarts
  int num_gradients = 0;                          // averaged in a task
  std::shared_ptr<HostGradients> host_gradients;  // what hosts average, or null
  std::set<std::string> shared;       // variables of which learners have one copy
  std::vector<bool> corrects_itself;  // by trained variable, in the analysis' order
  std::vector<std::string> hidden_random_ops;
  bool sums = false;  // the loss sums over rows
  // Whether learners, which share the rows of a batch, meet in tasks.
  bool meets = false;
  // Whether rows are normalised by moments that may be those of a learner's rows alone.
  bool own_moments = false;
  // The program without what took the element that it is fed; or null.
  std::unique_ptr<ProgramGraph> cut;
  // The program where it is made to take any number of rows, which learners are
  // compiled from then; else null.
  std::unique_ptr<ProgramGraph> any_rows;
  // That, with the moments by hand averaged over the learners; or null.
  std::unique_ptr<ProgramGraph> together;
  // That, with the meetings that the proof has found; or null.
  std::unique_ptr<ProgramGraph> met;
  // That, with gradients averaged where they leave the loss; or null.
  std::unique_ptr<ProgramGraph> at_loss;
  std::set<std::string> same_fetches;  // on all learners
  // Whether each learner transforms gradients of its own, which are averaged then.
  bool transforms_own = false;
  // What the learners were compiled from, if gradients or learning rates are scaled.
  std::unique_ptr<ProgramGraph> scaled_graph;
  Adjustments adjustments;
  // Why one learner executes the runs, where several learners, which there were not at
  // first, cannot.
  std::string why_central;

  // Kept by runs.
  std::unique_ptr<Divisions> divisions;
  // Why its gradients cannot be evaluated to prove a division, where the program has
  // some and a proof is wanted; else empty.
  std::string unprovable;
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
  // By default its models are averaged, since its gradients are not found, and nobody
  // has been told.
  bool models_instead = false;
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
  const Adjustments& adjustments;
};

// Says which variables learners are to have one copy of, of those that can be.
using AgreeOnSharing = std::function<std::set<std::string>(const SharableVariables&)>;

// `sparse_feeds`: feeds that are parts of sparse tensors. `fixed`: feeds of a fixed
// number of rows, if `graph` takes any. `averages`: what several learners average;
// InvalidArgument if the run's gradients are wanted and not found.
// `*program` refers to the nodes of `graph`.
absl::Status CompileLearningProgram(
    const ProgramGraph& graph, const RunSpec& spec, const RunAnalysis& analysis,
    const SparseFeeds& sparse_feeds, const FixedRows& fixed, const Options& options,
    const tensorflow::SessionOptions& session_options, Traits::Averages averages,
    const AgreeOnSharing& agree, LearnerGroup* learners, LearningProgram* program);

// Whether several learners could average the gradients of a run, which `alone` has been
// compiled from for a lone learner: InvalidArgument if they are not found.
absl::Status CheckGradients(const RunToCompile& run, const Options& options,
                            const tensorflow::SessionOptions& session_options,
                            LearnerGroup* learners, LearningProgram* alone);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PROGRAM_LEARNING_PROGRAM_H_
