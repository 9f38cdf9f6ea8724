// Partial runs (partial_run_setup() and partial_run()). The central session executes
// them.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "cc/session/tensorbow_session.h"

namespace tensorbow {

namespace tf = ::tensorflow;

absl::Status TensorBowSession::PRunSetup(const std::vector<std::string>& inputs,
                                         const std::vector<std::string>& outputs,
                                         const std::vector<std::string>& targets,
                                         std::string* handle) {
  TF_RETURN_IF_ERROR(CheckOpen());
  auto run = std::make_shared<PartialRun>();
  TF_RETURN_IF_ERROR(
      dispatcher_->AnalysePartial({inputs, outputs, targets}, &run->analysis));
  run->open.Begin(&trainer_->central(), run->analysis);
  {
    CentralRun beside;
    TF_RETURN_IF_ERROR(beside.Begin(&trainer_->central(), run->analysis));
    // Executes everything that needs no feeds.
    TF_RETURN_IF_ERROR(central_->PRunSetup(inputs, outputs, targets, handle));
    beside.End();
  }
  absl::MutexLock lock(&mu_);
  partial_runs_[*handle] = std::move(run);
  return absl::OkStatus();
}

absl::Status TensorBowSession::PRun(const std::string& handle,
                                    const NamedTensors& inputs,
                                    const std::vector<std::string>& outputs,
                                    std::vector<tf::Tensor>* fetches) {
  TF_RETURN_IF_ERROR(CheckOpen());
  std::shared_ptr<PartialRun> run;
  {
    absl::ReaderMutexLock lock(&mu_);
    const auto known = partial_runs_.find(handle);
    if (known != partial_runs_.end()) run = known->second;
  }
  // The stock session reports a wrong handle.
  if (run == nullptr) return central_->PRun(handle, inputs, outputs, fetches);
  absl::Status status;
  {
    CentralRun beside;
    TF_RETURN_IF_ERROR(beside.Begin(&trainer_->central(), run->analysis));
    status = central_->PRun(handle, inputs, outputs, fetches);
    beside.End();
  }
  for (const auto& [name, tensor] : inputs) {
    if (tensor.dims() > 0) run->rows = std::max(run->rows, tensor.dim_size(0));
  }
  // Tests whether the run has ended or failed: then the stock session has dropped it.
  std::vector<tf::Tensor> nothing;
  if (central_->PRun(handle, {}, {}, &nothing).ok()) return status;
  if (status.ok() && run->analysis.kind == RunAnalysis::Kind::kLearning) {
    trainer_->CountCentralTask(run->rows);
  }
  absl::MutexLock lock(&mu_);
  partial_runs_.erase(handle);
  return status;
}

}  // namespace tensorbow
