// The signatures of a RunDispatcher: analysed, compiled and described.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/analysis/input_element.h"
#include "cc/graph/op_facts.h"
#include "cc/session/run_dispatcher.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns a number that is equal for runs that train the same variables.
uint64_t StepOf(const RunAnalysis& analysis) {
  std::vector<absl::string_view> trained;
  for (const auto& [name, use] : analysis.variables) {
    if (use.trained) trained.push_back(name);
  }
  return absl::HashOf(trained);
}

}  // namespace

absl::Status RunDispatcher::Extend(
    const tf::GraphDef& graph, const std::function<absl::Status()>& extend_central) {
  absl::MutexLock lock(&mu_);
  TF_RETURN_IF_ERROR(extend_central());
  return graph_.Extend(graph);
}

std::vector<const tf::NodeDef*> RunDispatcher::VariableNodes() {
  absl::ReaderMutexLock lock(&mu_);
  std::vector<const tf::NodeDef*> nodes;
  for (const tf::NodeDef& node : graph_.graph_def().node()) {
    if (FactsOf(node.op()).creates_variable) nodes.push_back(&node);
  }
  return nodes;
}

absl::Status RunDispatcher::ChangeLearners(
    const std::function<absl::Status()>& change) {
  {
    absl::MutexLock compiling(&compile_mu_);
    TF_RETURN_IF_ERROR(change());
  }
  absl::MutexLock lock(&mu_);
  // Learning runs that the learners before could not divide are compiled again.
  absl::erase_if(signatures_, [this](const auto& known) {
    const Signature& signature = *known.second;
    const bool refused = !signature.for_learners() ||
                         (signature.program != nullptr &&
                          session_.trainer->programs().Refused(*signature.program));
    return refused && signature.analysis.central_only.empty() &&
           signature.analysis.kind == RunAnalysis::Kind::kLearning;
  });
  return absl::OkStatus();
}

void RunDispatcher::Clear() {
  absl::MutexLock lock(&mu_);
  signatures_.clear();
}

void RunDispatcher::AddTrainable(const std::vector<std::string>& variables) {
  absl::MutexLock lock(&mu_);
  trainable_.insert(variables.begin(), variables.end());
}

void RunDispatcher::AddSparseFeeds(
    const std::vector<std::vector<std::string>>& tensors) {
  absl::MutexLock lock(&mu_);
  for (const std::vector<std::string>& parts : tensors) {
    std::array<std::string, 3> names;
    if (parts.size() == names.size()) std::copy_n(parts.begin(), 3, names.begin());
    for (const std::string& part : parts) sparse_feeds_[part] = names;
  }
}

std::optional<RunAnalysis::Kind> RunDispatcher::ChosenKind(const RunSpec& spec) const {
  if (session_.options.run_kind.empty()) return std::nullopt;
  for (const auto* names : {&spec.targets, &spec.fetches}) {
    for (const std::string& name : *names) {
      const auto chosen = session_.options.run_kind.find(name);
      if (chosen != session_.options.run_kind.end()) return chosen->second;
    }
  }
  return std::nullopt;
}

void RunDispatcher::WarnIfUseless(const RunAnalysis& analysis) {
  if (analysis.trains_alike) {
    session_.warnings->Warn(absl::StrCat(
        "A learning run has no feeds, takes no data from the graph and draws no random "
        "numbers, so that all learners compute the same. Use "
        "Options(learners_per_device=1), which is as fast; got ",
        session_.trainer->num_learners(), " learners."));
  }
  // Programs with towers keep their shared variables on the first CPU.
  std::vector<std::string> devices = analysis.devices;
  devices.erase(std::remove(devices.begin(), devices.end(), "/CPU:0"), devices.end());
  if (devices.size() > 1) {
    session_.warnings->Warn(absl::StrCat(
        "The program places a learning run on several devices, but every learner "
        "executes all of it on its own device. Build the model once, without towers: "
        "the session divides the rows among the learners. Got the devices ",
        absl::StrJoin(devices, ", "), "."));
  }
}

bool RunDispatcher::DividesElements(const RunAnalysis& analysis) const {
  if (!analysis.takes_data && !analysis.calls_take_data && !analysis.calls_python) {
    return false;
  }
  if (!session_.options.divides_elements()) return false;
  // A single learner on each of fixed hosts has nothing to divide. Elastic hosts repeat
  // a run with the element that it has taken.
  return !session_.trainer->has_other_hosts() ||
         session_.trainer->has_elastic_hosts() || session_.trainer->num_learners() > 1;
}

absl::Status RunDispatcher::AnalyseElement(Signature* signature) {
  PipelineElement element;
  auto input_run = std::make_shared<Signature>();
  {
    absl::MutexLock lock(&mu_);
    TF_ASSIGN_OR_RETURN(const auto run, RunGraph::Of(graph_, signature->spec));
    TF_ASSIGN_OR_RETURN(element, FindPipelineElement(*run, signature->analysis));
    if (element.tensors.empty()) return absl::OkStatus();
    input_run->spec = {signature->spec.feeds, element.tensors, {}};
    TF_ASSIGN_OR_RETURN(const auto input_graph, RunGraph::Of(graph_, input_run->spec));
    TF_RETURN_IF_ERROR(AnalyseRun(*input_graph, trainable_, RunAnalysis::Kind::kRead,
                                  &input_run->analysis));
    for (const std::array<std::string, 3>& parts : element.sparse) {
      for (const std::string& part : parts) sparse_feeds_[part] = parts;
    }
  }
  const RunSpec fed = WithElement(signature->spec, element);
  auto runs = std::make_shared<ElementRuns>();
  runs->fed_run = FindSignature(fed);
  if (runs->fed_run == nullptr) runs->fed_run = AnalyseNew(fed);
  runs->input_run = std::move(input_run);
  signature->element = std::move(runs);
  return absl::OkStatus();
}

bool RunDispatcher::Analyse(Signature* signature) {
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
  if (signature->why_central.empty() && signature->element == nullptr) {
    absl::ReaderMutexLock lock(&mu_);
    const absl::Status compiled = session_.trainer->programs().Compile(
        graph_, signature->spec, analysis, sparse_feeds_, &signature->program);
    signature->why_central = std::string(compiled.message());
  }
  return true;
}

std::shared_ptr<const Signature> RunDispatcher::FindSignature(const RunSpec& spec) {
  absl::ReaderMutexLock lock(&mu_);
  const auto known = signatures_.find(KeyOf(spec));
  return known == signatures_.end() ? nullptr : known->second;
}

std::shared_ptr<const Signature> RunDispatcher::FindOrAnalyse(RunSpec spec) {
  std::shared_ptr<const Signature> known = FindSignature(spec);
  if (known != nullptr) return known;
  absl::MutexLock compiling(&compile_mu_);
  known = FindSignature(spec);
  return known != nullptr ? known : AnalyseNew(std::move(spec));
}

std::shared_ptr<const Signature> RunDispatcher::FindLearning(const RunSpec& spec) {
  absl::ReaderMutexLock lock(&mu_);
  const auto known = signatures_.find(KeyOf(spec));
  if (known == signatures_.end() || !known->second->for_learners()) return nullptr;
  return known->second;
}

std::shared_ptr<const Signature> RunDispatcher::AnalyseNew(RunSpec spec) {
  auto signature = std::make_shared<Signature>();
  signature->spec = std::move(spec);
  // The stock session reports a run that makes no sense (unknown names, …). Its
  // signature is not kept: the graph may yet grow.
  if (!Analyse(signature.get())) return signature;
  if (session_.options.one_step) signature->step = StepOf(signature->analysis);
  if (!signature->why_central.empty() && session_.trainer->num_learners() > 1) {
    session_.warnings->WarnOfOneLearner(signature->why_central);
  }
  if (signature->program != nullptr && session_.trainer->num_learners() > 1) {
    WarnIfUseless(signature->analysis);
  }
  absl::MutexLock lock(&mu_);
  signatures_[KeyOf(signature->spec)] = signature;
  return signature;
}

absl::Status RunDispatcher::AnalysePartial(const RunSpec& spec, RunAnalysis* analysis) {
  {
    absl::ReaderMutexLock lock(&mu_);
    const auto run = RunGraph::Of(graph_, spec);
    // The stock session reports a run that makes no sense.
    if (!run.ok()) return absl::OkStatus();
    TF_RETURN_IF_ERROR(AnalyseRun(**run, trainable_, ChosenKind(spec), analysis));
  }
  if (analysis->kind != RunAnalysis::Kind::kLearning) return absl::OkStatus();
  const std::string why = "it is a partial run, which gets its feeds one by one";
  if (session_.trainer->has_other_hosts()) return NotOnManyHosts(why);
  if (session_.trainer->num_learners() > 1) session_.warnings->WarnOfOneLearner(why);
  return absl::OkStatus();
}

RunDispatcher::Description RunDispatcher::Describe(RunSpec spec) {
  const std::shared_ptr<const Signature> signature = FindOrAnalyse(std::move(spec));
  const ElementRuns* const element = signature->element.get();
  const Signature& run = element != nullptr ? *element->fed_run : *signature;
  Description description;
  description.kind = signature->analysis.kind;
  description.learners = 1;
  description.why_one_learner = run.why_central;
  if (element != nullptr) description.element = element->input_run->spec.fetches;
  if (run.program == nullptr) return description;
  description.why_one_learner =
      session_.trainer->programs().WhyOneLearner(*run.program);
  if (!description.why_one_learner.empty()) return description;
  description.learners = session_.trainer->num_learners();
  const auto compiled = run.program->compiled();
  for (const FetchSource& fetch : compiled->fetches) {
    if (!fetch.variable.has_value()) continue;
    description.variable_fetches.push_back(fetch.declaration.name);
  }
  return description;
}

void RunDispatcher::Recompile(const Signature& signature, const RowsOfRun* rows) {
  absl::MutexLock compiling(&compile_mu_);
  absl::ReaderMutexLock lock(&mu_);
  session_.trainer->programs().Recompile(graph_, signature.spec, sparse_feeds_, rows,
                                         signature.program.get());
}

void RunDispatcher::CompileForShapes(const Signature& signature,
                                     const TaskShapes& shapes) {
  absl::MutexLock compiling(&compile_mu_);
  absl::ReaderMutexLock lock(&mu_);
  session_.trainer->programs().CompileForShapes(graph_, signature.spec, sparse_feeds_,
                                                shapes, signature.program.get());
}

}  // namespace tensorbow
