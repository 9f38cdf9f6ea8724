// Compiles learning runs for the learners of a group, by the passes of cc/passes.
// Thread-compatible.
#ifndef TENSORBOW_CC_PROGRAM_COMPILER_H_
#define TENSORBOW_CC_PROGRAM_COMPILER_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/analysis/run_analysis.h"
#include "cc/config/options.h"
#include "cc/feeds/sparse_rows.h"
#include "cc/graph/program_graph.h"
#include "cc/graph/task_graph.h"
#include "cc/learner/learner_group.h"
#include "cc/passes/pass.h"
#include "cc/program/compiled_program.h"
#include "cc/program/task_shapes.h"
#include "cc/synchroniser/algorithm.h"
#include "tensorflow/core/public/session_options.h"

namespace tensorbow {

// The run to compile. All of it outlives the compilation.
struct RunToCompile {
  const ProgramGraph& graph;
  const RunSpec& spec;
  const RunAnalysis& analysis;
  const SparseFeeds& sparse_feeds;     // feeds that are parts of sparse tensors
  const RowsOfRun* rows;               // of the feeds; null: by their declarations
  const TaskShapes* shapes = nullptr;  // of a task's feeds; null: any
};

struct Compilation {
  std::shared_ptr<CompiledProgram> compiled;
  std::unique_ptr<LearnerPrograms> learners;
};

class Compiler {
 public:
  // The options and the group are not owned. `agree` is called for each compilation
  // whose learners may share variables.
  Compiler(const Options& options, const tensorflow::SessionOptions& session_options,
           LearnerGroup* learners, AgreeOnSharing agree)
      : options_(options),
        session_options_(session_options),
        learners_(*learners),
        agree_(std::move(agree)) {}

  // Compiles a run. `averages`: the values that several learners average.
  // InvalidArgument if the learners cannot divide the run's rows, or if its gradients
  // are needed and not found.
  absl::StatusOr<Compilation> Compile(const RunToCompile& run,
                                      Traits::Averages averages) const;

  // Compiles it for tasks whose feeds have `run.shapes`. `tasks`: copies of the
  // learners' tasks for any shapes. Returns none if they would gain nothing.
  absl::StatusOr<LearnerPrograms::Tasks> CompileForShapes(
      const RunToCompile& run, Traits::Averages averages,
      std::vector<TaskGraph> tasks) const;

 private:
  CompileInput InputFor(const RunToCompile& run, Traits::Averages averages) const;
  // Sets the rows that `program` is compiled for, and whether they are typed.
  absl::Status ChooseRows(const RunToCompile& run, CompiledProgram* program,
                          CompileInput* in) const;
  // Inserts exchanges between learners, or leaves the graph if the user has named all
  // divided feeds.
  absl::Status PlaceExchanges(const CompileInput& in, const ProgramGraph& users_graph,
                              ProgramDraft* draft, CompiledProgram* program) const;
  // Does so by types, and defers fetches.
  absl::Status PlaceTyped(CompileInput in, const ProgramGraph& users_graph,
                          ProgramDraft* draft, CompiledProgram* program) const;
  // Lowers and rewrites the graph of a task.
  absl::Status MakeTask(CompileInput in, const ProgramGraph& graph, Compilation* made,
                        TaskGraph* task) const;
  absl::Status CompileLearners(const RunToCompile& run, const ProgramGraph& graph,
                               const TaskGraph& task, Compilation* made) const;
  bool is_alone() const { return learners_.size() == 1 && options_.num_hosts() == 1; }

  const Options& options_;
  const tensorflow::SessionOptions& session_options_;
  LearnerGroup& learners_;
  const AgreeOnSharing agree_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PROGRAM_COMPILER_H_
