// A pass: one named rewriting of a graph. A pipeline (pipeline.h) holds the order.
#ifndef TENSORBOW_CC_PASSES_PASS_H_
#define TENSORBOW_CC_PASSES_PASS_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cc/analysis/row_types/row_types.h"
#include "cc/analysis/run_analysis.h"
#include "cc/config/options.h"
#include "cc/graph/program_graph.h"
#include "cc/graph/task_graph.h"
#include "cc/passes/program/insert_exchanges.h"
#include "cc/passes/program/resize_constants.h"
#include "cc/passes/task/send_gradients.h"
#include "cc/passes/task/share_variables.h"
#include "cc/synchroniser/algorithm.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tensorbow {

// Chooses the variables that learners share, of those that they can share.
using AgreeOnSharing = std::function<std::set<std::string>(const SharableVariables&)>;

// The run that learners are to execute, with its settings. Outlives the pipeline's
// work.
struct CompileInput {
  CompileInput(const RunSpec& spec, const RunAnalysis& analysis, const Options& options)
      : spec(spec), analysis(analysis), options(options) {}

  RunSpec spec;
  const RunAnalysis& analysis;
  const Options& options;
  Traits::Averages averages = Traits::Averages::kNothing;
  Exchanging exchanging = Exchanging::kNothing;
  bool alone = false;       // one learner computes the same as a stock session
  bool may_divide = false;  // runs can have more than one task
  bool on_accelerators = false;
  bool lowers_conditionals = false;  // that are functions
  int threads = 1;                   // of a learner
  FixedRows fixed;                   // feeds of a fixed number of rows
  // The feeds that are divided; null: rows are not typed.
  const RowsOfRun* rows = nullptr;
  // The shapes of a task's feeds; null: any.
  const std::vector<tensorflow::TensorShape>* shapes = nullptr;
  // The device of learners beside the CPU; null: none.
  const tensorflow::Device* accelerator = nullptr;
  // Divides a lowered task between the devices.
  std::function<absl::Status(TaskGraph*)> divide;
  // Applies the optimisations that need a learner's runtime.
  std::function<void(TaskGraph*)> optimise;
  AgreeOnSharing agree;
};

// The facts about a compiled run that passes find or create.
struct TaskTraits {
  std::shared_ptr<const RowTypes> types;  // null: rows are not typed
  bool exchanges = false;                 // learners exchange values within a task
  // A learner estimates values of all rows from its own rows.
  bool estimates = false;
  // The nodes that write sums over rows to trained variables; nullopt: not known.
  std::optional<std::set<std::string>> averaged;
  std::set<int> whole_feeds;          // numbers of feeds that are not divided
  int num_gradients = 0;              // exchanges of a task
  std::vector<bool> corrects_itself;  // by trained variable, in the analysis' order
  std::set<std::string> shared;       // variables of which learners have one copy
  std::vector<SentGradient> sent;     // to other hosts, in order
};

// The program's graph after the passes so far. Only the last version is kept.
class ProgramDraft {
 public:
  // `program`: not owned.
  explicit ProgramDraft(const ProgramGraph& program) : program_(&program) {}

  const ProgramGraph& graph() const { return own_ == nullptr ? *program_ : *own_; }
  void Replace(std::unique_ptr<ProgramGraph> changed) { own_ = std::move(changed); }
  absl::Status Replace(const tensorflow::GraphDef& changed) {
    auto graph = std::make_unique<ProgramGraph>();
    const absl::Status extended = graph->Extend(changed);
    if (extended.ok()) own_ = std::move(graph);
    return extended;
  }

 private:
  const ProgramGraph* program_;
  std::shared_ptr<const ProgramGraph> own_;
};

// The interface of a pass, which has no state. `Graph`: ProgramDraft before a run is
// lowered to a task's graph, TaskGraph after that.
template <typename Graph>
class Pass {
 public:
  virtual ~Pass() = default;

  virtual absl::string_view name() const = 0;
  // Rewrites the graph; returns whether it has changed. After an error the graph is
  // unusable. InvalidArgument: learners cannot execute the run, for the reason given.
  virtual absl::StatusOr<bool> Run(const CompileInput& in, Graph* graph,
                                   TaskTraits* traits) const = 0;
};
using ProgramPass = Pass<ProgramDraft>;
using TaskPass = Pass<TaskGraph>;

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PASS_H_
