// Finds what kind of run a call is, and has the learners or the central model execute
// it: the part of TensorBowSession that is not TensorFlow's Session interface. A run is
// analysed, and compiled for the learners, once for its feeds, fetches and targets (a
// Signature).
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cc/session/tensorbow_session.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

int64_t LeadingRows(const std::vector<tf::Tensor>& feeds) {
  int64_t rows = 0;
  for (const tf::Tensor& feed : feeds) {
    if (feed.dims() > 0) rows = std::max(rows, feed.dim_size(0));
  }
  return rows;
}

}  // namespace

void TensorBowSession::AddTrainable(const std::vector<std::string>& variables) {
  absl::MutexLock lock(&mu_);
  trainable_.insert(variables.begin(), variables.end());
}

void TensorBowSession::AddSparseFeeds(
    const std::vector<std::vector<std::string>>& tensors) {
  absl::MutexLock lock(&mu_);
  for (const std::vector<std::string>& parts : tensors) {
    std::array<std::string, 3> names;
    if (parts.size() == names.size()) std::copy_n(parts.begin(), 3, names.begin());
    for (const std::string& part : parts) sparse_feeds_[part] = names;
  }
}

std::optional<RunAnalysis::Kind> TensorBowSession::ChosenKind(
    const RunSpec& spec) const {
  if (options_.run_kind.empty()) return std::nullopt;
  for (const auto* names : {&spec.targets, &spec.fetches}) {
    for (const std::string& name : *names) {
      const auto chosen = options_.run_kind.find(name);
      if (chosen != options_.run_kind.end()) return chosen->second;
    }
  }
  return std::nullopt;
}

void TensorBowSession::WarnIfUseless(const RunAnalysis& analysis) {
  if (analysis.trains_alike) {
    Warn(absl::StrCat(
        "A learning run has no feeds, takes no data from the graph and draws no random "
        "numbers: all ",
        trainer_->num_learners(),
        " learners compute the same in it, which is no faster than one "
        "(Options(learners_per_device=1))."));
  }
  // The first CPU is where programs keep the variables that their towers share.
  std::vector<std::string> devices = analysis.devices;
  devices.erase(std::remove(devices.begin(), devices.end(), "/CPU:0"), devices.end());
  if (devices.size() > 1) {
    Warn(absl::StrCat(
        "The program spreads a learning run over several devices (",
        absl::StrJoin(devices, ", "),
        "), but every learner executes all of it on its own device. Learners take the "
        "place of towers: build the model once and leave the rows to the session."));
  }
}

bool TensorBowSession::Analyse(Signature* signature) {
  RunAnalysis& analysis = signature->analysis;
  const absl::Status analysed = AnalyseRun(graph_, signature->spec, trainable_,
                                           ChosenKind(signature->spec), &analysis);
  if (!analysed.ok()) return false;
  if (analysis.kind != RunAnalysis::Kind::kLearning) return true;
  signature->why_central = analysis.central_only;
  if (signature->why_central.empty()) {
    const absl::Status compiled = trainer_->Compile(graph_, signature->spec, analysis,
                                                    sparse_feeds_, &signature->program);
    signature->why_central = std::string(compiled.message());
  }
  signature->rows_tensor = RowsTensor(graph_, signature->spec);
  return true;
}

namespace {

absl::Status NotOnManyHosts(const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat(
      "The learning run cannot be divided among the learners of this host",
      why.empty() ? "" : ": ", why,
      ". Where several hosts train together that is needed; give each one learner "
      "(Options(learners_per_device=1)), or train on one host."));
}

}  // namespace

std::shared_ptr<const TensorBowSession::Signature> TensorBowSession::FindOrAnalyse(
    RunSpec spec) {
  const std::string key = KeyOf(spec);
  {
    absl::ReaderMutexLock lock(&mu_);
    const auto known = signatures_.find(key);
    if (known != signatures_.end()) return known->second;
  }
  absl::MutexLock compiling(&compile_mu_);
  auto signature = std::make_shared<Signature>();
  signature->spec = std::move(spec);
  {
    absl::ReaderMutexLock lock(&mu_);
    const auto known = signatures_.find(key);
    if (known != signatures_.end()) return known->second;
    // A run that makes no sense (unknown names, …) is left to the stock session, which
    // has the right words for it, and is not remembered: the graph may yet grow.
    if (!Analyse(signature.get())) return signature;
  }
  if (!signature->why_central.empty() && trainer_->num_learners() > 1) {
    Warn(absl::StrCat("A learning run is executed by one learner only: ",
                      signature->why_central));
  }
  if (signature->program != nullptr && trainer_->num_learners() > 1) {
    WarnIfUseless(signature->analysis);
  }
  absl::MutexLock lock(&mu_);
  signatures_[key] = signature;
  return signature;
}

TensorBowSession::Description TensorBowSession::Describe(RunSpec spec) {
  const std::shared_ptr<const Signature> signature = FindOrAnalyse(std::move(spec));
  Description description = {signature->analysis.kind, 1, signature->why_central, {}};
  if (signature->program == nullptr) return description;
  description.learners = trainer_->num_learners();
  for (const LearningProgram::Fetch& fetch : signature->program->fetches) {
    if (fetch.variable == nullptr) continue;
    description.variable_fetches.push_back(fetch.declaration.name);
  }
  return description;
}

void TensorBowSession::Recompile(const Signature& signature,
                                 const std::set<std::string>& tensors) {
  absl::MutexLock compiling(&compile_mu_);
  absl::ReaderMutexLock lock(&mu_);
  trainer_->Recompile(graph_, signature.spec, sparse_feeds_, tensors,
                      signature.program.get());
}

absl::Status TensorBowSession::RunSignature(
    const Signature& signature, const Call& call,
    const std::function<absl::Status()>& central) {
  const bool learning = signature.analysis.kind == RunAnalysis::Kind::kLearning;
  const tf::RunOptions& options = call.run_options;
  const bool debugging = !options.debug_options().debug_tensor_watch_opts().empty();
  if (signature.program != nullptr && !debugging) {
    const int pools = session_options_.config.session_inter_op_thread_pool_size();
    if (options.inter_op_thread_pool() < 0 ||
        options.inter_op_thread_pool() >= std::max(1, pools)) {
      return absl::InvalidArgumentError(absl::StrCat("Invalid inter_op_thread_pool: ",
                                                     options.inter_op_thread_pool()));
    }
    RunRequest request;
    request.program = signature.program.get();
    request.feeds = &call.feeds;
    request.run_options = &options;
    request.task_rows = call.task_rows;
    request.cancellation = &cancellation_;
    request.metadata = call.metadata;
    absl::Time begin = absl::Now();
    TF_ASSIGN_OR_RETURN(RunOutcome outcome, trainer_->Run(request));
    while (outcome.recompile.has_value()) {
      Recompile(signature, *outcome.recompile);
      begin = absl::Now();
      TF_ASSIGN_OR_RETURN(outcome, trainer_->Run(request));
    }
    if (outcome.executed) {
      *call.fetches = std::move(outcome.fetches);
      if (options_.tunes_learners) {
        Tune(signature, outcome, absl::ToDoubleSeconds(absl::Now() - begin));
      }
      return absl::OkStatus();
    }
    if (trainer_->has_other_hosts() && !outcome.uninitialised)
      return NotOnManyHosts("");
  } else if (learning && trainer_->has_other_hosts()) {
    return NotOnManyHosts(debugging ? "a debugger watches it" : signature.why_central);
  }
  Trainer::CentralRun beside;
  TF_RETURN_IF_ERROR(beside.Begin(trainer_.get(), signature.analysis));
  const absl::Status status = central();
  beside.End();
  int64_t rows = LeadingRows(call.feeds);
  if (status.ok() && !signature.rows_tensor.empty()) {
    if (rows == 0) rows = LeadingRows({call.fetches->back()});
    call.fetches->pop_back();
  }
  if (status.ok() && learning) trainer_->CountCentralTask(rows);
  return status;
}

absl::StatusOr<Explanation> TensorBowSession::ExplainLearning(
    const Signature& signature, const std::vector<tf::Tensor>& feeds) {
  TF_RETURN_IF_ERROR(CheckOpen());
  const tf::RunOptions options;
  RunRequest request;
  request.program = signature.program.get();
  request.feeds = &feeds;
  request.run_options = &options;
  request.cancellation = &cancellation_;
  return trainer_->Explain(request);
}

std::shared_ptr<const TensorBowSession::Signature> TensorBowSession::FindLearning(
    const RunSpec& spec) {
  absl::ReaderMutexLock lock(&mu_);
  const auto known = signatures_.find(KeyOf(spec));
  if (known == signatures_.end() || known->second->program == nullptr) return nullptr;
  return known->second;
}

absl::Status TensorBowSession::RunLearning(const Signature& signature,
                                           const std::vector<tf::Tensor>& feeds,
                                           std::vector<int64_t> task_rows,
                                           std::vector<tf::Tensor>* fetches) {
  TF_RETURN_IF_ERROR(CheckOpen());
  const tf::RunOptions options;
  const Call call = {feeds, options, std::move(task_rows), fetches, nullptr};
  return RunSignature(signature, call, [&] {
    NamedTensors inputs;
    for (size_t i = 0; i < feeds.size(); ++i) {
      inputs.emplace_back(signature.spec.feeds[i], Aligned(feeds[i]));
    }
    std::vector<std::string> wanted = signature.spec.fetches;
    if (!signature.rows_tensor.empty()) wanted.push_back(signature.rows_tensor);
    return central_->Run(inputs, wanted, signature.spec.targets, fetches);
  });
}

}  // namespace tensorbow
