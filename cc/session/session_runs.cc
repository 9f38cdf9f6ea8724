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
#include "cc/analysis/input_element.h"
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
        "numbers, so that all learners compute the same. Use "
        "Options(learners_per_device=1), which is as fast; got ",
        trainer_->num_learners(), " learners."));
  }
  // The first CPU is where programs keep the variables that their towers share.
  std::vector<std::string> devices = analysis.devices;
  devices.erase(std::remove(devices.begin(), devices.end(), "/CPU:0"), devices.end());
  if (devices.size() > 1) {
    Warn(absl::StrCat(
        "The program places a learning run on several devices, but every learner "
        "executes all of it on its own device. Build the model once, without towers: "
        "the session divides the rows among the learners. Got the devices ",
        absl::StrJoin(devices, ", "), "."));
  }
}

bool TensorBowSession::DividesElements(const RunAnalysis& analysis) const {
  if (!analysis.takes_data && !analysis.calls_take_data && !analysis.calls_python) {
    return false;
  }
  if (!options_.divides_elements()) return false;
  // Where the learners of a host are one, whatever happens, there is nothing to divide.
  // But elastic hosts make a run again with the element that they have taken for it.
  return !trainer_->has_other_hosts() || trainer_->has_elastic_hosts() ||
         trainer_->num_learners() > 1;
}

absl::Status TensorBowSession::AnalyseElement(Signature* signature) {
  PipelineElement element;
  auto taking = std::make_shared<Signature>();
  {
    absl::MutexLock lock(&mu_);
    TF_ASSIGN_OR_RETURN(const auto run, RunGraph::Of(graph_, signature->spec));
    TF_ASSIGN_OR_RETURN(element, FindPipelineElement(*run, signature->analysis));
    if (element.tensors.empty()) return absl::OkStatus();
    taking->spec = {signature->spec.feeds, element.tensors, {}};
    TF_ASSIGN_OR_RETURN(const auto taking_run, RunGraph::Of(graph_, taking->spec));
    TF_RETURN_IF_ERROR(AnalyseRun(*taking_run, trainable_, RunAnalysis::Kind::kRead,
                                  &taking->analysis));
    for (const std::array<std::string, 3>& parts : element.sparse) {
      for (const std::string& part : parts) sparse_feeds_[part] = parts;
    }
  }
  const RunSpec fed = WithElement(signature->spec, element);
  std::shared_ptr<const Signature> divided = FindSignature(fed);
  signature->divided = divided != nullptr ? std::move(divided) : AnalyseNew(fed);
  signature->taking = std::move(taking);
  signature->refusals = std::make_shared<Signature::Refusals>();
  return absl::OkStatus();
}

bool TensorBowSession::Analyse(Signature* signature) {
  RunAnalysis& analysis = signature->analysis;
  {
    absl::ReaderMutexLock lock(&mu_);
    const auto run = RunGraph::Of(graph_, signature->spec);
    if (!run.ok() ||
        !AnalyseRun(**run, trainable_, ChosenKind(signature->spec), &analysis).ok()) {
      return false;
    }
    if (analysis.kind != RunAnalysis::Kind::kLearning) return true;
    signature->why_central = analysis.central_only;
    signature->rows_tensor = (*run)->RowsTensor();
  }
  if (signature->why_central.empty() && DividesElements(analysis)) {
    signature->why_central = std::string(AnalyseElement(signature).message());
  }
  if (signature->why_central.empty() && signature->divided == nullptr) {
    absl::ReaderMutexLock lock(&mu_);
    const absl::Status compiled = trainer_->Compile(graph_, signature->spec, analysis,
                                                    sparse_feeds_, &signature->program);
    signature->why_central = std::string(compiled.message());
  }
  return true;
}

namespace {

// What a stock session says of a pool of threads that it does not have.
absl::Status CheckPool(const tf::RunOptions& options, const tf::ConfigProto& config) {
  const int pools = std::max(1, config.session_inter_op_thread_pool_size());
  if (options.inter_op_thread_pool() >= -1 && options.inter_op_thread_pool() < pools) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("Invalid inter_op_thread_pool: ", options.inter_op_thread_pool()));
}

// An element that cannot be divided is left to the central session from then on.
void NoteRefusal(TensorBowSession::Signature::Refusals* refusals) {
  refusals->runs_left.store(int64_t{1} << 40);
}

}  // namespace

absl::Status TensorBowSession::NotOnManyHosts(const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrCat("The learning run cannot be divided among the learners of this host",
                   why.empty() ? "" : ": ", why,
                   ". Hosts of a cluster have to divide it: give each one learner "
                   "(Options(learners_per_device=1)), or train on one host."));
}

std::shared_ptr<const TensorBowSession::Signature> TensorBowSession::FindSignature(
    const RunSpec& spec) {
  absl::ReaderMutexLock lock(&mu_);
  const auto known = signatures_.find(KeyOf(spec));
  return known == signatures_.end() ? nullptr : known->second;
}

std::shared_ptr<const TensorBowSession::Signature> TensorBowSession::FindOrAnalyse(
    RunSpec spec) {
  std::shared_ptr<const Signature> known = FindSignature(spec);
  if (known != nullptr) return known;
  absl::MutexLock compiling(&compile_mu_);
  known = FindSignature(spec);
  return known != nullptr ? known : AnalyseNew(std::move(spec));
}

std::shared_ptr<const TensorBowSession::Signature> TensorBowSession::AnalyseNew(
    RunSpec spec) {
  auto signature = std::make_shared<Signature>();
  signature->spec = std::move(spec);
  // A run that makes no sense (unknown names, …) is left to the stock session, which
  // has the right words for it, and is not remembered: the graph may yet grow.
  if (!Analyse(signature.get())) return signature;
  if (!signature->why_central.empty() && trainer_->num_learners() > 1) {
    WarnOfOneLearner(signature->why_central);
  }
  if (signature->program != nullptr && trainer_->num_learners() > 1) {
    WarnIfUseless(signature->analysis);
  }
  absl::MutexLock lock(&mu_);
  signatures_[KeyOf(signature->spec)] = signature;
  return signature;
}

TensorBowSession::Description TensorBowSession::Describe(RunSpec spec) {
  const std::shared_ptr<const Signature> signature = FindOrAnalyse(std::move(spec));
  const Signature& run =
      signature->divided != nullptr ? *signature->divided : *signature;
  Description description;
  description.kind = signature->analysis.kind;
  description.learners = 1;
  description.why_one_learner = run.why_central;
  if (signature->taking != nullptr)
    description.element = signature->taking->spec.fetches;
  if (run.program == nullptr) return description;
  description.why_one_learner = trainer_->WhyOneLearner(*run.program);
  if (!description.why_one_learner.empty()) return description;
  description.learners = trainer_->num_learners();
  const auto compiled = run.program->compiled();
  for (const FetchSource& fetch : compiled->fetches) {
    if (!fetch.variable.has_value()) continue;
    description.variable_fetches.push_back(fetch.declaration.name);
  }
  return description;
}

void TensorBowSession::Recompile(const Signature& signature, const RowsOfRun* rows) {
  absl::MutexLock compiling(&compile_mu_);
  absl::ReaderMutexLock lock(&mu_);
  trainer_->Recompile(graph_, signature.spec, sparse_feeds_, rows,
                      signature.program.get());
}

absl::Status TensorBowSession::RunCentral(const Signature& signature,
                                          const Call& call) {
  NamedTensors inputs;
  for (size_t i = 0; i < call.feeds.size(); ++i) {
    inputs.emplace_back(signature.spec.feeds[i], Aligned(call.feeds[i]));
  }
  std::vector<std::string> wanted = signature.spec.fetches;
  if (!signature.rows_tensor.empty()) wanted.push_back(signature.rows_tensor);
  tf::RunMetadata unused;
  return central_->Run(call.run_options, inputs, wanted, signature.spec.targets,
                       call.fetches,
                       call.metadata == nullptr ? &unused : call.metadata);
}

absl::Status TensorBowSession::RunWithElement(const Signature& signature,
                                              const Call& call) {
  const Signature& divided = *signature.divided;
  std::vector<tf::Tensor> element;
  tf::RunOptions options;
  options.set_timeout_in_ms(call.run_options.timeout_in_ms());
  // On this thread, where nothing in it may wait for something else in it.
  if (!signature.taking->analysis.calls_python) options.set_inter_op_thread_pool(-1);
  const Call take = {call.feeds, options, {}, &element, nullptr};
  const absl::Status taken = RunSignature(
      *signature.taking, take, [&] { return RunCentral(*signature.taking, take); });
  if (absl::IsOutOfRange(taken) && trainer_->has_other_hosts() &&
      divided.program != nullptr) {
    RunRequest request;
    request.program = divided.program.get();
    request.feeds = &call.feeds;
    request.run_options = &call.run_options;
    request.end_of_data = taken;
    request.cancellation = &cancellation_;
    TF_RETURN_IF_ERROR(trainer_->Run(request).status());
  }
  TF_RETURN_IF_ERROR(taken);

  std::vector<tf::Tensor> feeds = call.feeds;
  feeds.insert(feeds.end(), element.begin(), element.end());
  std::vector<tf::Tensor> fetched;
  Call fed = {feeds, call.run_options, call.task_rows, &fetched, call.metadata};
  bool undivided = false;
  fed.has_element = !trainer_->has_other_hosts();
  fed.undivided = &undivided;
  TF_RETURN_IF_ERROR(
      RunSignature(divided, fed, [&] { return RunCentral(divided, fed); }));
  if (undivided) NoteRefusal(signature.refusals.get());

  // Where the element itself is fetched, it is what was taken.
  const std::vector<std::string>& tensors = signature.taking->spec.fetches;
  call.fetches->clear();
  auto next = fetched.begin();
  for (const std::string& fetch : signature.spec.fetches) {
    const auto own = std::find(tensors.begin(), tensors.end(), fetch);
    call.fetches->push_back(own == tensors.end() ? std::move(*next++)
                                                 : element[own - tensors.begin()]);
  }
  return absl::OkStatus();
}

absl::Status TensorBowSession::RunSignature(
    const Signature& signature, const Call& call,
    const std::function<absl::Status()>& central) {
  const tf::RunOptions& options = call.run_options;
  const bool debugging = !options.debug_options().debug_tensor_watch_opts().empty();
  if (signature.for_learners() && !debugging) {
    TF_RETURN_IF_ERROR(CheckPool(options, session_options_.config));
  }
  const bool learning = signature.analysis.kind == RunAnalysis::Kind::kLearning;
  const std::string why_now = learning ? trainer_->central().WhyOneLearner() : "";
  if (!why_now.empty()) {
    if (trainer_->has_other_hosts()) return NotOnManyHosts(why_now);
    WarnOfOneLearner(why_now);
    return RunOnCentral(signature, call, central);
  }
  if (signature.divided != nullptr && !debugging) {
    if (signature.divided->program != nullptr &&
        signature.refusals->runs_left.fetch_sub(1) <= 0) {
      return RunWithElement(signature, call);
    }
    return RunOnCentral(signature, call, central);
  }
  if (signature.program != nullptr && !debugging) {
    RunRequest request;
    request.program = signature.program.get();
    request.feeds = &call.feeds;
    request.run_options = &options;
    request.task_rows = call.task_rows;
    request.has_element = call.has_element;
    request.cancellation = &cancellation_;
    request.metadata = call.metadata;
    TF_ASSIGN_OR_RETURN(RunOutcome outcome, RunOnLearners(signature, request));
    if (outcome.executed) {
      if (call.undivided != nullptr) *call.undivided = outcome.undivided;
      *call.fetches = std::move(outcome.fetches);
      return absl::OkStatus();
    }
    if (call.undivided != nullptr) *call.undivided = true;
    if (trainer_->has_other_hosts() && !outcome.uninitialised)
      return NotOnManyHosts("");
  } else if (learning && trainer_->has_other_hosts()) {
    return NotOnManyHosts(debugging ? "a debugger watches it" : signature.why_central);
  }
  return RunOnCentral(signature, call, central);
}

absl::Status TensorBowSession::RunOnCentral(
    const Signature& signature, const Call& call,
    const std::function<absl::Status()>& central) {
  const bool learning = signature.analysis.kind == RunAnalysis::Kind::kLearning;
  if (learning && trainer_->has_other_hosts() && signature.program == nullptr) {
    return NotOnManyHosts(signature.why_central);
  }
  CentralRun beside;
  TF_RETURN_IF_ERROR(beside.Begin(&trainer_->central(), signature.analysis));
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

absl::StatusOr<Decision> TensorBowSession::ExplainLearning(
    const Signature& signature, const std::vector<tf::Tensor>& feeds) {
  TF_RETURN_IF_ERROR(CheckOpen());
  // What is not known before an element is taken is not found out.
  if (signature.divided != nullptr) return Decision();
  const tf::RunOptions options;
  RunRequest request;
  request.program = signature.program.get();
  request.feeds = &feeds;
  request.run_options = &options;
  request.cancellation = &cancellation_;
  TF_ASSIGN_OR_RETURN(Decision explanation, trainer_->Explain(request));
  if (!explanation.recompile) return explanation;
  Recompile(signature, explanation.rows.has_value() ? &*explanation.rows : nullptr);
  return trainer_->Explain(request);
}

std::shared_ptr<const TensorBowSession::Signature> TensorBowSession::FindLearning(
    const RunSpec& spec) {
  absl::ReaderMutexLock lock(&mu_);
  const auto known = signatures_.find(KeyOf(spec));
  if (known == signatures_.end() || !known->second->for_learners()) return nullptr;
  return known->second;
}

absl::Status TensorBowSession::RunLearning(const Signature& signature,
                                           const std::vector<tf::Tensor>& feeds,
                                           std::vector<int64_t> task_rows,
                                           std::vector<tf::Tensor>* fetches) {
  TF_RETURN_IF_ERROR(CheckOpen());
  const tf::RunOptions options;
  const Call call = {feeds, options, std::move(task_rows), fetches, nullptr};
  return RunSignature(signature, call, [&] { return RunCentral(signature, call); });
}

}  // namespace tensorbow
