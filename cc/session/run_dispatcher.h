// Finds the kind of a run, and has the learners or the central model execute it. A run
// is analysed, and compiled for the learners, once for its feeds, fetches and targets
// (Signature). Thread-safe.
#ifndef TENSORBOW_CC_SESSION_RUN_DISPATCHER_H_
#define TENSORBOW_CC_SESSION_RUN_DISPATCHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "cc/analysis/run_analysis.h"
#include "cc/config/options.h"
#include "cc/graph/program_graph.h"
#include "cc/session/layout_tuning.h"
#include "cc/session/session_warnings.h"
#include "cc/session/signature.h"
#include "cc/trainer/trainer.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/public/session.h"

namespace tensorbow {

class RunDispatcher {
 public:
  // The parts of a session that runs need; they outlive the dispatcher.
  struct Parts {
    const Options& options;
    const tensorflow::ConfigProto& config;
    tensorflow::Session* central;
    Trainer* trainer;
    LayoutTuning* tuning;
    SessionWarnings* warnings;
    tensorflow::CancellationManager* cancellation;  // when the session closes
  };
  explicit RunDispatcher(const Parts& parts) : session_(parts) {}

  // --- The program.

  // Adds nodes to the graph, after `extend_central` has done so for the central
  // session.
  absl::Status Extend(const tensorflow::GraphDef& graph,
                      const std::function<absl::Status()>& extend_central)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Adds facts that only Python knows of the graph.
  void AddTrainable(const std::vector<std::string>& variables) ABSL_LOCKS_EXCLUDED(mu_);
  void AddSparseFeeds(const std::vector<std::vector<std::string>>& tensors)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the ops that create variables, as far as they are known.
  std::vector<const tensorflow::NodeDef*> VariableNodes() ABSL_LOCKS_EXCLUDED(mu_);

  // Calls `change`, which may replace the learners, while nothing is compiled. Runs
  // that the old learners could not execute are analysed again when they come next.
  absl::Status ChangeLearners(const std::function<absl::Status()>& change)
      ABSL_LOCKS_EXCLUDED(compile_mu_, mu_);
  // Drops all signatures. REQUIRES: the session is closed.
  void Clear() ABSL_LOCKS_EXCLUDED(mu_);

  // --- Signatures.

  std::shared_ptr<const Signature> FindOrAnalyse(RunSpec spec)
      ABSL_LOCKS_EXCLUDED(compile_mu_, mu_);
  // Returns the signature of a run that learners may execute and that has been run
  // before; else null.
  std::shared_ptr<const Signature> FindLearning(const RunSpec& spec)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Analyses a partial run. Warns, or on several hosts fails, if it trains.
  absl::Status AnalysePartial(const RunSpec& spec, RunAnalysis* analysis)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The facts of a run that is analysed but not executed.
  struct Description {
    RunAnalysis::Kind kind = RunAnalysis::Kind::kRead;
    int learners = 0;             // that would execute it; 1: the central model
    std::string why_one_learner;  // of a learning run
    std::vector<std::string> variable_fetches;  // that are central values
    std::vector<std::string> element;  // tensors whose rows are divided when taken
  };
  Description Describe(RunSpec spec) ABSL_LOCKS_EXCLUDED(compile_mu_, mu_);

  // --- Runs.

  struct Call {
    const std::vector<tensorflow::Tensor>& feeds;
    const tensorflow::RunOptions& run_options;
    std::vector<int64_t> task_rows;  // see RunRequest
    std::vector<tensorflow::Tensor>* fetches;
    tensorflow::RunMetadata* metadata;  // may be null
    bool feeds_element = false;         // see RunRequest::feeds_element
    bool* on_one_learner = nullptr;     // see Executed
  };
  // Runs on the learners if possible, otherwise through `central`.
  absl::Status Run(const Signature& signature, const Call& call,
                   const std::function<absl::Status()>& central)
      ABSL_LOCKS_EXCLUDED(compile_mu_, mu_);
  // Runs on the learners if possible, otherwise by the central session.
  absl::Status Run(const Signature& signature, const Call& call);
  // Explains how a learning run would be executed, without training.
  absl::StatusOr<Decision> Explain(const Signature& signature,
                                   const std::vector<tensorflow::Tensor>& feeds)
      ABSL_LOCKS_EXCLUDED(compile_mu_, mu_);

 private:
  // Returns the kind that the user chose for such a run.
  std::optional<RunAnalysis::Kind> ChosenKind(const RunSpec& spec) const;
  std::shared_ptr<const Signature> FindSignature(const RunSpec& spec)
      ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<const Signature> AnalyseNew(RunSpec spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(compile_mu_) ABSL_LOCKS_EXCLUDED(mu_);
  // Analyses a new signature; compiles it if learners execute it. Returns false for a
  // run that makes no sense.
  bool Analyse(Signature* signature) ABSL_EXCLUSIVE_LOCKS_REQUIRED(compile_mu_)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns whether learners divide the elements that the run takes from pipelines and
  // queues.
  bool DividesElements(const RunAnalysis& analysis) const;
  // Finds the element that the run takes, if any, and analyses the run that is fed it.
  absl::Status AnalyseElement(Signature* signature)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(compile_mu_) ABSL_LOCKS_EXCLUDED(mu_);
  // Warns of a run that several learners execute without being faster.
  void WarnIfUseless(const RunAnalysis& analysis);
  // Compiles the run once more, for the learners there are; see Trainer::Recompile.
  void Recompile(const Signature& signature, const RowsOfRun* rows)
      ABSL_LOCKS_EXCLUDED(compile_mu_, mu_);
  // Compiles the run for tasks of these shapes, too; see Trainer::CompileForShapes.
  void CompileForShapes(const Signature& signature, const TaskShapes& shapes)
      ABSL_LOCKS_EXCLUDED(compile_mu_, mu_);

  // Runs on the learners until they have a result. Takes fewer of them if the tuner has
  // tried too many for an accelerator's memory and the run has changed nothing.
  absl::StatusOr<RunOutcome> RunOnLearners(const Signature& signature,
                                           const RunRequest& request)
      ABSL_LOCKS_EXCLUDED(compile_mu_, mu_);
  // Has the central session compute what the learners have left of a run.
  absl::Status ComputeDeferred(const RunRequest& request, Executed* outcome);
  absl::Status RunOnCentral(const Signature& signature, const Call& call,
                            const std::function<absl::Status()>& central);
  // Takes the element, then runs the signature that is fed it.
  absl::Status RunWithElement(const Signature& signature, const Call& call);
  // Executes a signature in the central session.
  absl::Status RunCentral(const Signature& signature, const Call& call);

  // Returns the error of a learning run that the learners of a host cannot divide.
  static absl::Status NotOnManyHosts(const std::string& why);

  const Parts session_;

  absl::Mutex compile_mu_ ABSL_ACQUIRED_BEFORE(mu_);  // one new signature at a time
  absl::Mutex mu_;  // never held while waiting for a run
  ProgramGraph graph_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<std::string> trainable_ ABSL_GUARDED_BY(mu_);
  SparseFeeds sparse_feeds_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, std::shared_ptr<const Signature>> signatures_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SESSION_RUN_DISPATCHER_H_
