// A TensorFlow session that trains on several learners.
//
// It keeps a stock session inside, which holds the central model and executes every
// run that is not learning, with all of TensorFlow's behaviour. Learning runs go to
// the Trainer. Registered with TensorFlow's SessionFactory for targets that begin with
// "tensorbow". Thread-safe.
#ifndef TENSORBOW_CC_SESSION_TENSORBOW_SESSION_H_
#define TENSORBOW_CC_SESSION_TENSORBOW_SESSION_H_

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "cc/analysis/run_analysis.h"
#include "cc/config/options.h"
#include "cc/graph/program_graph.h"
#include "cc/session/central_callable.h"
#include "cc/trainer/central_gate.h"
#include "cc/trainer/trainer.h"
#include "cc/tuner/layout_tuner.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/public/session.h"

namespace tensorbow {

class TensorBowSession : public tensorflow::Session {
 public:
  static absl::Status New(const tensorflow::SessionOptions& session_options,
                          const Options& options,
                          std::unique_ptr<TensorBowSession>* session);
  ~TensorBowSession() override;

  using NamedTensors = std::vector<std::pair<std::string, tensorflow::Tensor>>;

  absl::Status Create(const tensorflow::GraphDef& graph) override;
  absl::Status Extend(const tensorflow::GraphDef& graph) override;
  absl::Status Run(const NamedTensors& inputs, const std::vector<std::string>& outputs,
                   const std::vector<std::string>& targets,
                   std::vector<tensorflow::Tensor>* fetches) override;
  absl::Status Run(const tensorflow::RunOptions& run_options,
                   const NamedTensors& inputs, const std::vector<std::string>& outputs,
                   const std::vector<std::string>& targets,
                   std::vector<tensorflow::Tensor>* fetches,
                   tensorflow::RunMetadata* metadata) override;
  absl::Status Run(const tensorflow::RunOptions& run_options,
                   const NamedTensors& inputs, const std::vector<std::string>& outputs,
                   const std::vector<std::string>& targets,
                   std::vector<tensorflow::Tensor>* fetches,
                   tensorflow::RunMetadata* metadata,
                   const tensorflow::thread::ThreadPoolOptions& thread_pools) override;
  absl::Status PRunSetup(const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs,
                         const std::vector<std::string>& targets,
                         std::string* handle) override;
  absl::Status PRun(const std::string& handle, const NamedTensors& inputs,
                    const std::vector<std::string>& outputs,
                    std::vector<tensorflow::Tensor>* fetches) override;
  absl::Status ListDevices(std::vector<tensorflow::DeviceAttributes>* devices) override;
  absl::Status Close() override;
  absl::Status LocalDeviceManager(const tensorflow::DeviceMgr** devices) override;
  absl::Status MakeCallable(const tensorflow::CallableOptions& callable_options,
                            CallableHandle* handle) override;
  absl::Status RunCallable(CallableHandle handle,
                           const std::vector<tensorflow::Tensor>& feeds,
                           std::vector<tensorflow::Tensor>* fetches,
                           tensorflow::RunMetadata* metadata) override;
  absl::Status RunCallable(
      CallableHandle handle, const std::vector<tensorflow::Tensor>& feeds,
      std::vector<tensorflow::Tensor>* fetches, tensorflow::RunMetadata* metadata,
      const tensorflow::thread::ThreadPoolOptions& thread_pools) override;
  absl::Status ReleaseCallable(CallableHandle handle) override;

  // A run by its feeds, fetches and targets, analysed once.
  struct Signature {
    RunSpec spec;
    RunAnalysis analysis;
    // Null unless learners execute the run.
    std::shared_ptr<Program> program;
    std::string why_central;  // why not, of a learning run
    // What the central session is to fetch last, for its number of rows: of a learning
    // run that takes data from the graph. Else empty.
    std::string rows_tensor;
    // Where a learning run takes an element from a pipeline or a queue, or from Python
    // functions, whose rows are divided: the run that fetches its tensors, and the one
    // that is fed them. Else null; these have programs of their own.
    std::shared_ptr<const Signature> taking;
    std::shared_ptr<const Signature> divided;
    // How often that was refused, and so many runs the central session executes as they
    // are before an element is taken to be divided again.
    struct Refusals {
      std::atomic<int> count{0};
      std::atomic<int64_t> runs_left{0};
    };
    std::shared_ptr<Refusals> refusals;

    // Whether learners may execute the run.
    bool for_learners() const {
      return program != nullptr || (divided != nullptr && divided->for_learners());
    }
  };
  // The signature of a run if learners execute it; null otherwise, or if it has not
  // been run yet. Only weak references to it may outlive the session.
  std::shared_ptr<const Signature> FindLearning(const RunSpec& spec);
  // Runs it, on the learners unless something speaks against that. The feeds need not
  // be aligned. `task_rows`: see RunRequest.
  absl::Status RunLearning(const Signature& signature,
                           const std::vector<tensorflow::Tensor>& feeds,
                           std::vector<int64_t> task_rows,
                           std::vector<tensorflow::Tensor>* fetches);

  // How it would be run, found out as by running it; nothing is trained.
  absl::StatusOr<Decision> ExplainLearning(
      const Signature& signature, const std::vector<tensorflow::Tensor>& feeds);

  // What a run is, found out as for running it, but nothing is executed.
  struct Description {
    RunAnalysis::Kind kind = RunAnalysis::Kind::kRead;
    int learners = 0;             // that would execute it; 1: the central model
    std::string why_one_learner;  // of a learning run
    std::vector<std::string> variable_fetches;  // that are central values
    std::vector<std::string> element;  // tensors whose rows are divided when taken
  };
  Description Describe(RunSpec spec);

  // `callback` is called once, when the destructor begins.
  void OnDestruction(std::function<void()> callback) {
    on_destruction_ = std::move(callback);
  }

  // Makes an eager variable that has been offered (cc/replicas/offered_variables.h) the
  // session's of this shared name. NotFound if there is none of that number.
  absl::Status AdoptVariable(const std::string& shared_name, int64_t number);

  // What Python alone knows of the graph; both sets only grow.
  void AddTrainable(const std::vector<std::string>& variables);
  void AddSparseFeeds(const std::vector<std::vector<std::string>>& tensors);

  // See Trainer; the graph's variables are those known so far.
  absl::Status SaveState(const std::string& path);
  absl::Status LoadState(const std::string& path)
      ABSL_LOCKS_EXCLUDED(tuner_mu_, compile_mu_);

  // See Trainer::SetLayout; `threads` as in Options::threads_per_learner, without a
  // number as the options say. Nothing is tuned from then on.
  // REQUIRES: `threads` has at most one number, or one for each learner of a device.
  absl::Status SetLearners(int learners_per_device, std::vector<int> threads)
      ABSL_LOCKS_EXCLUDED(tuner_mu_, compile_mu_);

  // Whether the number of learners may change by itself.
  bool tunes_learners() ABSL_LOCKS_EXCLUDED(tuner_mu_);
  // From now on it stays what it is.
  void EndTuning() ABSL_LOCKS_EXCLUDED(tuner_mu_);

  // What has been tried to find the best number of learners, in order; empty unless the
  // options say to.
  std::vector<LayoutTuner::Measurement> Tuning() ABSL_LOCKS_EXCLUDED(tuner_mu_);

  // Warnings since the last call, each text once per session.
  std::vector<std::string> TakeWarnings();
  bool has_warnings() const { return has_warnings_.load(std::memory_order_relaxed); }

  Trainer& trainer() { return *trainer_; }

  // Clears containers (the default one if empty) and closes, for SessionFactory.
  absl::Status Reset(const std::vector<std::string>& containers);

 private:
  struct Callable {
    std::shared_ptr<const Signature> signature;
    tensorflow::RunOptions run_options;
    std::shared_ptr<CentralCallable> central;
  };

  // A partial run that has been set up and has not ended.
  struct PartialRun {
    RunAnalysis analysis;
    int64_t rows = 0;  // that it has been fed
    OpenRun open;
  };

  TensorBowSession(const tensorflow::SessionOptions& session_options,
                   const Options& options);
  absl::Status Start();
  absl::Status CheckOpen() const;
  std::vector<const tensorflow::NodeDef*> VariableNodes() ABSL_LOCKS_EXCLUDED(mu_);

  std::shared_ptr<const Signature> FindOrAnalyse(RunSpec spec)
      ABSL_LOCKS_EXCLUDED(compile_mu_, mu_);
  std::shared_ptr<const Signature> FindSignature(const RunSpec& spec)
      ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<const Signature> AnalyseNew(RunSpec spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(compile_mu_) ABSL_LOCKS_EXCLUDED(mu_);
  // Says where several learners cannot help a run that they execute.
  void WarnIfUseless(const RunAnalysis& analysis);
  // The kind that the user chose for such a run.
  std::optional<RunAnalysis::Kind> ChosenKind(const RunSpec& spec) const;

  // Analyses a new signature, and compiles it if learners execute it. False if it makes
  // no sense.
  bool Analyse(Signature* signature) ABSL_EXCLUSIVE_LOCKS_REQUIRED(compile_mu_)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Analyses a partial run, and says so if it trains.
  absl::Status AnalysePartial(const RunSpec& spec, RunAnalysis* analysis)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Whether learners divide the elements that such a run takes from pipelines and
  // queues.
  bool DividesElements(const RunAnalysis& analysis) const;
  // Finds the element that the run takes and analyses the run that is fed it. Does
  // nothing where there is none.
  absl::Status AnalyseElement(Signature* signature)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(compile_mu_) ABSL_LOCKS_EXCLUDED(mu_);

  // Learning runs that could not be compiled for the learners there were are analysed
  // again when they come next.
  void ForgetUncompiled() ABSL_LOCKS_EXCLUDED(mu_);
  // Compiles the run once more, for the learners there are; see Trainer::Recompile.
  void Recompile(const Signature& signature, const RowsOfRun* rows)
      ABSL_LOCKS_EXCLUDED(compile_mu_, mu_);
  // Has the learners execute it, with fewer of them where the tuner has tried too many
  // for an accelerator's memory and the run has not changed anything.
  absl::StatusOr<RunOutcome> RunOnLearners(const Signature& signature,
                                           const RunRequest& request)
      ABSL_LOCKS_EXCLUDED(tuner_mu_, compile_mu_, mu_);
  // Runs `signature` on the learners if it is learning and nothing speaks against
  // it; otherwise through `central`.
  struct Call {
    const std::vector<tensorflow::Tensor>& feeds;
    const tensorflow::RunOptions& run_options;
    std::vector<int64_t> task_rows;
    std::vector<tensorflow::Tensor>* fetches;
    tensorflow::RunMetadata* metadata;  // may be null
    bool has_element = false;           // see RunRequest
    bool* undivided = nullptr;          // see RunOutcome
  };
  absl::Status RunSignature(const Signature& signature, const Call& call,
                            const std::function<absl::Status()>& central)
      ABSL_LOCKS_EXCLUDED(tuner_mu_, compile_mu_, mu_);
  absl::Status RunOnCentral(const Signature& signature, const Call& call,
                            const std::function<absl::Status()>& central);
  // Takes the element, then runs the signature that is fed it.
  absl::Status RunWithElement(const Signature& signature, const Call& call);
  // What the central session executes of a signature.
  absl::Status RunCentral(const Signature& signature, const Call& call);
  void Warn(const std::string& text) ABSL_LOCKS_EXCLUDED(warnings_mu_);
  void WarnOfOneLearner(const std::string& why);
  // Returns the error of a learning run that the learners of a host cannot divide.
  static absl::Status NotOnManyHosts(const std::string& why);

  std::function<void()> on_destruction_;
  tensorflow::SessionOptions session_options_;  // of the stock session and learners
  const Options options_;
  mutable tensorflow::CancellationManager cancellation_;
  std::unique_ptr<tensorflow::Session> central_;
  tensorflow::Device* central_device_ = nullptr;  // owned by central_
  AcceleratorBackend* accelerators_ = nullptr;  // not owned; null: learners on the CPU
  std::unique_ptr<Trainer> trainer_;

  // See tuning.cc.
  void StartTuning() ABSL_EXCLUSIVE_LOCKS_REQUIRED(tuner_mu_);
  void Tune(const Signature& signature, const RunOutcome& outcome, double seconds)
      ABSL_LOCKS_EXCLUDED(tuner_mu_, compile_mu_);
  // Changes to what the tuner has said or, where that cannot be had, to what it says
  // then; false if nothing can.
  bool Try(Layout next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(tuner_mu_)
      ABSL_LOCKS_EXCLUDED(compile_mu_);
  // A run has failed for want of memory in this layout: whether there is one with fewer
  // learners now.
  bool GiveUpLayout(const Layout& layout, const std::string& why)
      ABSL_LOCKS_EXCLUDED(tuner_mu_, compile_mu_);
  // How a layout that the tuner tries is taken: one learner on the CPU computes on all
  // cores, which are those that a stock session computes on.
  Layout TakenAs(const Layout& tried) const;
  absl::Status TakeLayout(const Layout& layout) ABSL_LOCKS_EXCLUDED(compile_mu_);

  absl::Mutex tuner_mu_ ABSL_ACQUIRED_BEFORE(compile_mu_);
  std::unique_ptr<LayoutTuner> tuner_ ABSL_GUARDED_BY(tuner_mu_);  // or null

  absl::Mutex compile_mu_ ABSL_ACQUIRED_BEFORE(mu_);  // one new signature at a time
  absl::Mutex mu_;  // never held while waiting for a run
  ProgramGraph graph_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<std::string> trainable_ ABSL_GUARDED_BY(mu_);
  SparseFeeds sparse_feeds_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, std::shared_ptr<const Signature>> signatures_
      ABSL_GUARDED_BY(mu_);
  std::map<CallableHandle, Callable> callables_ ABSL_GUARDED_BY(mu_);
  CallableHandle next_callable_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, std::shared_ptr<PartialRun>> partial_runs_ ABSL_GUARDED_BY(mu_);

  absl::Mutex warnings_mu_;
  std::vector<std::string> new_warnings_ ABSL_GUARDED_BY(warnings_mu_);
  std::set<std::string> known_warnings_ ABSL_GUARDED_BY(warnings_mu_);
  std::atomic<bool> has_warnings_{false};
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SESSION_TENSORBOW_SESSION_H_
