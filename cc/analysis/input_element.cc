#include "cc/analysis/input_element.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/dataflow.h"
#include "cc/graph/op_facts.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using Nodes = std::vector<const tf::NodeDef*>;

bool Contains(const std::vector<std::string>& names, absl::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns whether executing the node before the run, instead of in it, has a visible
// effect: it waits, or keeps state other than a pipeline's or a queue's. `called`:
// functions that are checked already.
bool MayBeNoticed(const tf::FunctionLibraryDefinition& functions,
                  const tf::NodeDef& node, std::set<std::string>* called) {
  if (FactsOf(node.op()).only_checks || node.op() == "PyFuncStateless") return false;
  if (FactsOf(node.op()).may_block || FactsOf(node.op()).takes_data ||
      FactsOf(node.op()).creates_variable) {
    return true;
  }
  if (FactsOf(node.op()).is_iterator) return false;
  const tf::OpDef* op = nullptr;
  if (!functions.LookUpOpDef(node.op(), &op).ok()) return true;
  const std::vector<Call> calls = CallsOf(node, functions);
  if (calls.empty()) return op->is_stateful() && !HasSharedKernel(node, *op);
  for (const Call& call : calls) {
    const auto record = functions.FindRecord(call.function);
    if (record == nullptr) return true;
    if (!called->insert(call.function).second) continue;
    for (const tf::NodeDef& inside : record->fdef().node_def()) {
      if (MayBeNoticed(functions, inside, called)) return true;
    }
  }
  return false;
}

// Returns whether all nodes that the node waits for may be executed before the run.
// `may_too`: further nodes that may.
bool MayComeFirst(const RunGraph& run, const tf::NodeDef& taker,
                  const std::function<bool(const tf::NodeDef&)>& may_too) {
  const auto unless_fed = [&run](const tf::NodeDef&, const std::string& input) {
    return !run.IsFed(input);
  };
  std::set<std::string> called;
  for (const tf::NodeDef* node : run.Reach({&taker}, unless_fed)) {
    if (node != &taker && !may_too(*node) &&
        MayBeNoticed(run.functions(), *node, &called)) {
      return false;
    }
  }
  return true;
}

std::string WhyNotFirst(const RunGraph& run, const Nodes& takers) {
  for (const tf::NodeDef* taker : takers) {
    if (run.InControlFlow(taker->name()) ||
        taker->op() == "IteratorGetNextAsOptional") {
      return absl::StrCat("a conditional or a loop takes it ('", taker->name(), "')");
    }
    if (!MayComeFirst(run, *taker, [](const tf::NodeDef&) { return false; })) {
      return absl::StrCat("'", taker->name(),
                          "' waits for other operations of the run");
    }
  }
  for (const tf::NodeDef* node : run.nodes()) {
    if (!takers.empty() && FactsOf(node->op()).puts_data) {
      return absl::StrCat("the run also adds elements to a queue ('", node->name(),
                          "')");
    }
  }
  return "";
}

// Returns the run's Python functions that may be called before it, together with
// `takers`.
Nodes PythonFunctionsBefore(const RunGraph& run, const Nodes& takers) {
  const auto comes_first = [&](const tf::NodeDef& node) {
    return (FactsOf(node.op()).calls_python && !run.InControlFlow(node.name())) ||
           std::find(takers.begin(), takers.end(), &node) != takers.end();
  };
  Nodes functions;
  for (const tf::NodeDef* node : run.nodes()) {
    if (FactsOf(node->op()).calls_python && comes_first(*node) &&
        MayComeFirst(run, *node, comes_first)) {
      functions.push_back(node);
    }
  }
  return functions;
}

// The outputs of `takers` that the run uses.
class Uses {
 public:
  Uses(const RunSpec& spec, const Nodes& takers) : spec_(spec) {
    for (const tf::NodeDef* taker : takers) takers_.insert(taker->name());
  }

  void Add(const tf::NodeDef& node) {
    for (const std::string& input : node.input()) {
      const TensorName tensor = ParseTensor(input);
      if (tensor.control || takers_.count(tensor.node) == 0) continue;
      if (node.op() != "DeserializeSparse") {
        Add(Canonical(input));
        continue;
      }
      const auto part = [&node](int index) {
        return absl::StrCat(node.name(), ":", index);
      };
      const std::array<std::string, 3> parts = {part(0), part(1), part(2)};
      for (const std::string& name : parts) Add(name);
      element_.sparse.push_back(parts);
    }
  }
  void AddFetched(const std::string& name) {
    if (takers_.count(ParseTensor(name).node) > 0) Add(Canonical(name));
  }
  const PipelineElement& element() const { return element_; }
  // Drops outputs that `nodes` do not use. `nodes` are executed when the element is
  // fed; other outputs were for other takers alone.
  void KeepOnly(const Nodes& nodes) {
    std::set<std::string> used;
    for (const std::string& fetch : spec_.fetches) used.insert(Canonical(fetch));
    for (const tf::NodeDef* node : nodes) {
      for (const std::string& input : node->input()) used.insert(Canonical(input));
    }
    for (const auto& parts : element_.sparse) used.insert(parts.begin(), parts.end());
    std::vector<std::string>& tensors = element_.tensors;
    tensors.erase(std::remove_if(tensors.begin(), tensors.end(),
                                 [&used](const std::string& tensor) {
                                   return used.count(tensor) == 0;
                                 }),
                  tensors.end());
  }

 private:
  void Add(const std::string& tensor) {
    if (Contains(spec_.feeds, tensor) || Contains(element_.tensors, tensor)) return;
    element_.tensors.push_back(tensor);
  }

  const RunSpec& spec_;
  std::set<absl::string_view> takers_;
  PipelineElement element_;
};

absl::Status CannotComeFirst(const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat(
      "what it takes from a pipeline or a queue cannot be taken ahead of it "
      "and divided: ",
      why,
      ". Options(elements=\"one_each\") gives each learner an element of "
      "its own."));
}

}  // namespace

RunSpec WithElement(const RunSpec& spec, const PipelineElement& element) {
  RunSpec fed = spec;
  fed.feeds.insert(fed.feeds.end(), element.tensors.begin(), element.tensors.end());
  fed.fetches.erase(std::remove_if(fed.fetches.begin(), fed.fetches.end(),
                                   [&element](const std::string& fetch) {
                                     return Contains(element.tensors, fetch);
                                   }),
                    fed.fetches.end());
  return fed;
}

absl::StatusOr<PipelineElement> FindPipelineElement(const RunGraph& run,
                                                    const RunAnalysis& analysis) {
  const RunSpec& spec = run.spec();
  if (analysis.calls_take_data) {
    return CannotComeFirst("a function or a conditional takes it");
  }
  Nodes takers;
  for (const tf::NodeDef* node : run.nodes()) {
    if (FactsOf(node->op()).takes_data) takers.push_back(node);
  }
  const std::string why = WhyNotFirst(run, takers);
  if (!why.empty()) return CannotComeFirst(why);
  const Nodes functions = PythonFunctionsBefore(run, takers);
  takers.insert(takers.end(), functions.begin(), functions.end());
  Uses uses(spec, takers);
  for (const tf::NodeDef* node : run.nodes()) uses.Add(*node);
  for (const std::string& fetch : spec.fetches) uses.AddFetched(fetch);
  Nodes nodes;
  const ProgramGraph& graph = run.program();
  TF_RETURN_IF_ERROR(graph.Needed(WithElement(spec, uses.element()), &nodes));
  uses.KeepOnly(nodes);
  Nodes taking;
  TF_RETURN_IF_ERROR(graph.Needed({spec.feeds, uses.element().tensors, {}}, &taking));
  for (const tf::NodeDef* node : nodes) {
    const std::string why = absl::StrCat("an operation waits for '", node->name(),
                                         "' without using its values");
    if (FactsOf(node->op()).takes_data) return CannotComeFirst(why);
    if (FactsOf(node->op()).calls_python &&
        std::find(taking.begin(), taking.end(), node) != taking.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat("a Python function would be called twice: ", why));
    }
  }
  return uses.element();
}

}  // namespace tensorbow
