// A TensorFlow session that trains on several learners.
//
// It keeps a stock session inside, which holds the central model and executes every
// run that is not learning, with all of TensorFlow's behaviour. A RunDispatcher gives
// learning runs to the Trainer. Registered with TensorFlow's SessionFactory for targets
// that begin with "tensorbow". Thread-safe.
#ifndef TENSORBOW_CC_SESSION_TENSORBOW_SESSION_H_
#define TENSORBOW_CC_SESSION_TENSORBOW_SESSION_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "cc/analysis/run_analysis.h"
#include "cc/config/options.h"
#include "cc/session/central_callable.h"
#include "cc/session/layout_tuning.h"
#include "cc/session/run_dispatcher.h"
#include "cc/session/session_warnings.h"
#include "cc/session/signature.h"
#include "cc/trainer/central_gate.h"
#include "cc/trainer/trainer.h"
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

  using Signature = tensorbow::Signature;
  using Description = RunDispatcher::Description;

  // Returns the signature of a run that learners may execute and that has been run
  // before; else null. Only weak references to it may outlive the session.
  std::shared_ptr<const Signature> FindLearning(const RunSpec& spec) {
    return dispatcher_->FindLearning(spec);
  }
  // Runs on the learners if possible. The feeds need not be aligned. `task_rows`: see
  // RunRequest.
  absl::Status RunLearning(const Signature& signature,
                           const std::vector<tensorflow::Tensor>& feeds,
                           std::vector<int64_t> task_rows,
                           std::vector<tensorflow::Tensor>* fetches);
  // Explains how the run would be executed, without training.
  absl::StatusOr<Decision> ExplainLearning(
      const Signature& signature, const std::vector<tensorflow::Tensor>& feeds);
  // Describes a run without executing it.
  Description Describe(RunSpec spec) { return dispatcher_->Describe(std::move(spec)); }

  // Sets a function that is called once, when the destructor begins.
  void OnDestruction(std::function<void()> callback) {
    on_destruction_ = std::move(callback);
  }

  // Adopts an offered eager variable (cc/replicas/offered_variables.h) under this
  // shared name. NotFound if no variable has that number.
  absl::Status AdoptVariable(const std::string& shared_name, int64_t number);

  // Adds facts that only Python knows of the graph.
  void AddTrainable(const std::vector<std::string>& variables) {
    dispatcher_->AddTrainable(variables);
  }
  void AddSparseFeeds(const std::vector<std::vector<std::string>>& tensors) {
    dispatcher_->AddSparseFeeds(tensors);
  }

  // See Trainer; the graph's variables are those known so far.
  absl::Status SaveState(const std::string& path);
  absl::Status LoadState(const std::string& path);

  // See LayoutTuning.
  absl::Status SetLearners(int learners_per_device, std::vector<int> threads);
  bool tunes_learners() { return tuning_->active(); }
  void EndTuning() { tuning_->End(); }
  std::vector<LayoutTuner::Measurement> Tuning() { return tuning_->log(); }

  // Returns the warnings since the last call, each text once per session.
  std::vector<std::string> TakeWarnings() { return warnings_.Take(); }
  bool has_warnings() const { return warnings_.any(); }

  Trainer& trainer() { return *trainer_; }

  // Clears containers (the default one if none is named) and closes.
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
    int64_t rows = 0;  // fed so far
    OpenRun open;
  };

  TensorBowSession(const tensorflow::SessionOptions& session_options,
                   const Options& options);
  absl::Status Start();
  absl::Status CheckOpen() const;

  std::function<void()> on_destruction_;
  tensorflow::SessionOptions session_options_;  // of the stock session and learners
  const Options options_;
  mutable tensorflow::CancellationManager cancellation_;
  SessionWarnings warnings_;
  std::unique_ptr<tensorflow::Session> central_;
  tensorflow::Device* central_device_ = nullptr;  // owned by central_
  AcceleratorBackend* accelerators_ = nullptr;  // not owned; null: learners on the CPU
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<LayoutTuning> tuning_;
  std::unique_ptr<RunDispatcher> dispatcher_;

  absl::Mutex mu_;  // never held while waiting for a run
  std::map<CallableHandle, Callable> callables_ ABSL_GUARDED_BY(mu_);
  CallableHandle next_callable_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, std::shared_ptr<PartialRun>> partial_runs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SESSION_TENSORBOW_SESSION_H_
