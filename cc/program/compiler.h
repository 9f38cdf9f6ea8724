// Compiles learning runs for the learners of a group, by the passes of cc/passes.
// Thread-compatible.
#ifndef TENSORBOW_CC_PROGRAM_COMPILER_H_
#define TENSORBOW_CC_PROGRAM_COMPILER_H_

#include <memory>
#include <utility>

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
#include "cc/synchroniser/algorithm.h"
#include "cc/training/division.h"
#include "tensorflow/core/public/session_options.h"

namespace tensorbow {

// The run that learners are to execute. All of it outlives the compilation.
struct RunToCompile {
  const ProgramGraph& graph;
  const RunSpec& spec;
  const RunAnalysis& analysis;
  const SparseFeeds& sparse_feeds;  // feeds that are parts of sparse tensors
  const Adjustments& adjustments;
};

struct Compilation {
  std::shared_ptr<CompiledProgram> compiled;
  std::unique_ptr<LearnerPrograms> learners;
  // The program before exchanges are placed in it; refers to the run's graph.
  std::unique_ptr<ProgramDraft> whole;
  // A copy of a lone learner's task as it was lowered, for CheckGradients().
  std::unique_ptr<TaskGraph> lowered;
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

  // `averages`: the values that several learners average. InvalidArgument if those are
  // gradients, and are not found.
  absl::StatusOr<Compilation> Compile(const RunToCompile& run,
                                      Traits::Averages averages) const;

  // Checks whether several learners could average the gradients of a run that `alone`
  // is the lone learner's compilation of: InvalidArgument if they are not found.
  absl::Status CheckGradients(const RunToCompile& run, Compilation* alone) const;

 private:
  CompileInput InputFor(const RunToCompile& run, Traits::Averages averages) const;
  absl::StatusOr<Compilation> CompileFor(const RunToCompile& run, CompileInput in,
                                         bool transforms_own) const;
  // Lowers and rewrites the graph of a task.
  absl::Status MakeTask(const CompileInput& in, const ProgramGraph& graph,
                        Compilation* made, TaskGraph* task) const;
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
