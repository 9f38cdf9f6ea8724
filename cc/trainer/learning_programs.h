// Compiles a session's learning programs and decides who executes their runs.
// Thread-safe.
#ifndef TENSORBOW_CC_TRAINER_LEARNING_PROGRAMS_H_
#define TENSORBOW_CC_TRAINER_LEARNING_PROGRAMS_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/coordination/host_coordinator.h"
#include "cc/graph/program_graph.h"
#include "cc/program/compiler.h"
#include "cc/program/decision.h"
#include "cc/trainer/central_gate.h"
#include "cc/trainer/run.h"
#include "cc/training/training_state.h"

namespace tensorbow {

class LearningPrograms {
 public:
  // Nothing is owned.
  LearningPrograms(TrainingState* state, HostCoordinator* hosts,
                   const CentralGate* central)
      : state_(state), hosts_(hosts), central_(central) {}

  // Waits for no run. Not to be called concurrently.
  absl::Status Compile(const ProgramGraph& graph, const RunSpec& spec,
                       const RunAnalysis& analysis, const SparseFeeds& sparse_feeds,
                       std::shared_ptr<Program>* program);
  // Compiles the program again, for the learners there are now and these rows; null: by
  // the declarations of the feeds. If that fails, one learner executes it from now on.
  void Recompile(const ProgramGraph& graph, const RunSpec& spec,
                 const SparseFeeds& sparse_feeds, const RowsOfRun* rows,
                 Program* program);
  // Compiles the program for tasks of these shapes, too.
  void CompileForShapes(const ProgramGraph& graph, const RunSpec& spec,
                        const SparseFeeds& sparse_feeds, const TaskShapes& shapes,
                        Program* program);

  // Divides the run's feeds. Warns if that is ambiguous.
  absl::StatusOr<FeedPlan> Plan(const RunRequest& request);
  // Returns the reason why one learner executes the program's runs; or an empty text.
  std::string WhyOneLearner(const Program& program) const
      ABSL_LOCKS_EXCLUDED(state_->mu());
  // Returns whether its learners could not be compiled.
  bool Refused(const Program& program) const ABSL_LOCKS_EXCLUDED(state_->mu()) {
    absl::MutexLock lock(&state_->mu());
    return !program.state.why_central.empty();
  }
  // Returns what Trainer::Run() would decide. Nothing is executed.
  absl::StatusOr<Decision> Explain(const RunRequest& request)
      ABSL_LOCKS_EXCLUDED(state_->mu());

 private:
  std::string WhyOneLearnerLocked(const Program& program) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu());
  Compiler NewCompiler();
  void WarnOfTwoMomenta(const RunAnalysis& analysis, double momentum);
  void WarnOfFeeds(Program* program, const std::string& why);

  TrainingState* const state_;
  HostCoordinator* const hosts_;
  const CentralGate* const central_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINER_LEARNING_PROGRAMS_H_
