#include "cc/session/tensorbow_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/learner/specialise.h"
#include "cc/replicas/offered_variables.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/common_runtime/session_factory.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace tensorbow {

namespace tf = ::tensorflow;

// -------------------------------------------------------------------- lifecycle

TensorBowSession::TensorBowSession(const tf::SessionOptions& session_options,
                                   const Options& options)
    : session_options_(session_options),
      options_(options),
      warnings_(options.collect_warnings) {
  session_options_.target = "";
  // Keeps the stock session, which has the central model on the CPU, off the GPUs: it
  // would take the memory that learners need.
  const auto& counts = session_options_.config.device_count();
  const auto gpus = counts.find("GPU");
  accelerators_ = Accelerators();
  if (accelerators_ != nullptr && ((gpus != counts.end() && gpus->second == 0) ||
                                   accelerators_->num_devices() == 0)) {
    accelerators_ = nullptr;
  }
  (*session_options_.config.mutable_device_count())["GPU"] = 0;
  if (accelerators_ != nullptr) {
    // Lets the central session execute on the CPU ops that the program places on a GPU.
    session_options_.config.set_allow_soft_placement(true);
  }
}

absl::Status TensorBowSession::New(const tf::SessionOptions& session_options,
                                   const Options& options,
                                   std::unique_ptr<TensorBowSession>* session) {
  auto made = absl::WrapUnique(new TensorBowSession(session_options, options));
  TF_RETURN_IF_ERROR(made->Start());
  *session = std::move(made);
  return absl::OkStatus();
}

absl::Status TensorBowSession::Start() {
  tf::Session* central = nullptr;
  TF_RETURN_IF_ERROR(tf::NewSession(session_options_, &central));
  central_.reset(central);
  const tf::DeviceMgr* devices = nullptr;
  TF_RETURN_IF_ERROR(central_->LocalDeviceManager(&devices));
  for (tf::Device* device : devices->ListDevices()) {
    if (device->device_type() == tf::DEVICE_CPU) {
      central_device_ = device;
      break;
    }
  }
  if (central_device_ == nullptr) {
    return absl::FailedPreconditionError(
        "The session has no CPU device; device_count in the ConfigProto must leave "
        "at least one");
  }
  // The stock session has logged the placement; learners would only repeat it.
  session_options_.config.set_log_device_placement(false);
  // Learners' graphs are pruned before they are placed in any case.
  session_options_.config.mutable_graph_options()->set_place_pruned_graph(false);
  trainer_ = std::make_unique<Trainer>(
      session_options_, options_, central_.get(), central_device_, accelerators_,
      [this](const std::string& text) { warnings_.Warn(text); });
  tuning_ = std::make_unique<LayoutTuning>(
      trainer_.get(), accelerators_ != nullptr, [this](const Layout& layout) {
        return dispatcher_->ChangeLearners([&] { return trainer_->SetLayout(layout); });
      });
  dispatcher_ = std::make_unique<RunDispatcher>(
      RunDispatcher::Parts{options_, session_options_.config, central_.get(),
                           trainer_.get(), tuning_.get(), &warnings_, &cancellation_});
  TF_RETURN_IF_ERROR(trainer_->Start());
  if (options_.tunes_learners) tuning_->Start();
  return absl::OkStatus();
}

TensorBowSession::~TensorBowSession() {
  if (on_destruction_) on_destruction_();
  if (central_ == nullptr) return;
  Close().IgnoreError();
  {
    absl::MutexLock lock(&mu_);
    callables_.clear();
    partial_runs_.clear();
  }
  // Programs: their kernels are destroyed before the resources they use.
  if (dispatcher_ != nullptr) dispatcher_->Clear();
  if (trainer_ != nullptr) trainer_->Release();
  central_.reset();
  trainer_.reset();
}

absl::Status TensorBowSession::CheckOpen() const {
  if (cancellation_.IsCancelled()) {
    return absl::CancelledError("Session has been closed.");
  }
  return absl::OkStatus();
}

absl::Status TensorBowSession::Close() {
  cancellation_.StartCancel();
  if (trainer_ != nullptr) trainer_->Leave();
  return central_->Close();
}

absl::Status TensorBowSession::Reset(const std::vector<std::string>& containers) {
  const tf::DeviceMgr* devices = nullptr;
  TF_RETURN_IF_ERROR(central_->LocalDeviceManager(&devices));
  std::vector<std::string> all = containers;
  std::vector<std::string> originals = containers;
  if (originals.empty()) {
    originals.push_back("");
    all.push_back(central_device_->resource_manager()->default_container());
  }
  for (int j = 0; j < trainer_->num_learners(); ++j) {
    for (const std::string& container : originals) {
      all.push_back(LearnerContainer(j, container));
    }
  }
  devices->ClearContainers(all);
  return Close();
}

absl::Status TensorBowSession::AdoptVariable(const std::string& shared_name,
                                             int64_t number) {
  auto variable = TakeOfferedVariable(number);
  if (variable == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("No variable has been offered as number ", number));
  }
  tf::ResourceMgr* const resources = central_device_->resource_manager();
  return resources->Create(resources->default_container(), shared_name,
                           variable.release());
}

absl::Status TensorBowSession::Create(const tf::GraphDef& graph) {
  return dispatcher_->Extend(graph, [&] { return central_->Create(graph); });
}

absl::Status TensorBowSession::Extend(const tf::GraphDef& graph) {
  return dispatcher_->Extend(graph, [&] { return central_->Extend(graph); });
}

absl::Status TensorBowSession::ListDevices(std::vector<tf::DeviceAttributes>* devices) {
  return central_->ListDevices(devices);
}

absl::Status TensorBowSession::LocalDeviceManager(const tf::DeviceMgr** devices) {
  return central_->LocalDeviceManager(devices);
}

// --------------------------------------------------------------- runs, callables

namespace {

// Returns the same run, without programs for learners.
std::shared_ptr<const Signature> CentralOnly(std::shared_ptr<const Signature> run) {
  if (run->program == nullptr && run->element == nullptr) return run;
  auto central_only = std::make_shared<Signature>(*run);
  central_only->program = nullptr;
  central_only->element = nullptr;
  return central_only;
}

}  // namespace

absl::Status TensorBowSession::Run(const NamedTensors& inputs,
                                   const std::vector<std::string>& outputs,
                                   const std::vector<std::string>& targets,
                                   std::vector<tf::Tensor>* fetches) {
  return Run(tf::RunOptions(), inputs, outputs, targets, fetches, nullptr);
}

absl::Status TensorBowSession::Run(const tf::RunOptions& run_options,
                                   const NamedTensors& inputs,
                                   const std::vector<std::string>& outputs,
                                   const std::vector<std::string>& targets,
                                   std::vector<tf::Tensor>* fetches,
                                   tf::RunMetadata* metadata) {
  return Run(run_options, inputs, outputs, targets, fetches, metadata,
             tf::thread::ThreadPoolOptions());
}

absl::Status TensorBowSession::Run(const tf::RunOptions& run_options,
                                   const NamedTensors& inputs,
                                   const std::vector<std::string>& outputs,
                                   const std::vector<std::string>& targets,
                                   std::vector<tf::Tensor>* fetches,
                                   tf::RunMetadata* metadata,
                                   const tf::thread::ThreadPoolOptions& thread_pools) {
  TF_RETURN_IF_ERROR(CheckOpen());
  RunSpec spec;
  std::vector<tf::Tensor> feeds;
  bool has_handles = false;  // of tensors that live in the stock session
  for (const auto& [name, tensor] : inputs) {
    spec.feeds.push_back(name);
    feeds.push_back(tensor);
    has_handles |= tensor.dtype() == tf::DT_RESOURCE;
  }
  spec.fetches = outputs;
  spec.targets = targets;
  std::shared_ptr<const Signature> signature =
      dispatcher_->FindOrAnalyse(std::move(spec));
  if (has_handles) signature = CentralOnly(std::move(signature));
  tf::RunMetadata unused;
  tf::RunMetadata* const sink = metadata != nullptr ? metadata : &unused;
  return dispatcher_->Run(*signature, {feeds, run_options, {}, fetches, sink}, [&] {
    std::vector<std::string> wanted = outputs;
    if (!signature->rows_tensor.empty()) wanted.push_back(signature->rows_tensor);
    return central_->Run(run_options, inputs, wanted, targets, fetches, sink,
                         thread_pools);
  });
}

absl::Status TensorBowSession::MakeCallable(const tf::CallableOptions& callable_options,
                                            CallableHandle* handle) {
  TF_RETURN_IF_ERROR(CheckOpen());
  RunSpec spec;
  spec.feeds.assign(callable_options.feed().begin(), callable_options.feed().end());
  spec.fetches.assign(callable_options.fetch().begin(), callable_options.fetch().end());
  spec.targets.assign(callable_options.target().begin(),
                      callable_options.target().end());
  Callable callable;
  callable.run_options = callable_options.run_options();
  callable.signature = dispatcher_->FindOrAnalyse(std::move(spec));
  if (callable_options.tensor_connection_size() > 0) {
    callable.signature = CentralOnly(std::move(callable.signature));
  }
  tf::CallableOptions with_rows = callable_options;
  if (!callable.signature->rows_tensor.empty()) {
    with_rows.add_fetch(callable.signature->rows_tensor);
  }
  callable.central =
      std::make_shared<CentralCallable>(central_.get(), std::move(with_rows));
  // The stock session checks runs that it executes, and the tensors' devices.
  if (!callable.signature->for_learners() || callable_options.feed_devices_size() > 0 ||
      callable_options.fetch_devices_size() > 0) {
    TF_RETURN_IF_ERROR(callable.central->Handle().status());
  }
  absl::MutexLock lock(&mu_);
  *handle = next_callable_++;
  callables_[*handle] = std::move(callable);
  return absl::OkStatus();
}

absl::Status TensorBowSession::RunCallable(CallableHandle handle,
                                           const std::vector<tf::Tensor>& feeds,
                                           std::vector<tf::Tensor>* fetches,
                                           tf::RunMetadata* metadata) {
  return RunCallable(handle, feeds, fetches, metadata, tf::thread::ThreadPoolOptions());
}

absl::Status TensorBowSession::RunCallable(
    CallableHandle handle, const std::vector<tf::Tensor>& feeds,
    std::vector<tf::Tensor>* fetches, tf::RunMetadata* metadata,
    const tf::thread::ThreadPoolOptions& thread_pools) {
  TF_RETURN_IF_ERROR(CheckOpen());
  Callable callable;
  {
    absl::ReaderMutexLock lock(&mu_);
    if (handle >= next_callable_) {
      return absl::InvalidArgumentError(
          absl::StrCat("No such callable handle: ", handle));
    }
    const auto known = callables_.find(handle);
    if (known == callables_.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Attempted to run callable after handle was released: ", handle));
    }
    callable = known->second;
  }
  auto central = [&]() -> absl::Status {
    TF_ASSIGN_OR_RETURN(const CallableHandle made, callable.central->Handle());
    return central_->RunCallable(made, feeds, fetches, metadata, thread_pools);
  };
  // The stock session reports a wrong number of feeds.
  if (feeds.size() != callable.signature->spec.feeds.size()) return central();
  return dispatcher_->Run(*callable.signature,
                          {feeds, callable.run_options, {}, fetches, metadata},
                          central);
}

absl::Status TensorBowSession::ReleaseCallable(CallableHandle handle) {
  Callable released;  // destroyed after `lock`: the stock session takes locks
  absl::MutexLock lock(&mu_);
  const auto known = callables_.find(handle);
  if (known == callables_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("No such callable handle: ", handle));
  }
  released = std::move(known->second);
  callables_.erase(known);
  return absl::OkStatus();
}

// ------------------------------------------------------------- learning runs, state

absl::Status TensorBowSession::RunLearning(const Signature& signature,
                                           const std::vector<tf::Tensor>& feeds,
                                           std::vector<int64_t> task_rows,
                                           std::vector<tf::Tensor>* fetches) {
  TF_RETURN_IF_ERROR(CheckOpen());
  const tf::RunOptions options;
  return dispatcher_->Run(signature,
                          {feeds, options, std::move(task_rows), fetches, nullptr});
}

absl::StatusOr<Decision> TensorBowSession::ExplainLearning(
    const Signature& signature, const std::vector<tf::Tensor>& feeds) {
  TF_RETURN_IF_ERROR(CheckOpen());
  return dispatcher_->Explain(signature, feeds);
}

absl::Status TensorBowSession::SetLearners(int learners_per_device,
                                           std::vector<int> threads) {
  TF_RETURN_IF_ERROR(CheckOpen());
  return tuning_->SetLearners(learners_per_device, std::move(threads));
}

absl::Status TensorBowSession::SaveState(const std::string& path) {
  TF_RETURN_IF_ERROR(CheckOpen());
  return trainer_->checkpoint().Save(dispatcher_->VariableNodes(), path);
}

absl::Status TensorBowSession::LoadState(const std::string& path) {
  TF_RETURN_IF_ERROR(CheckOpen());
  return tuning_->StartAgainAfter([&] {
    return dispatcher_->ChangeLearners([&] {
      return trainer_->checkpoint().Load(dispatcher_->VariableNodes(), path);
    });
  });
}

}  // namespace tensorbow
