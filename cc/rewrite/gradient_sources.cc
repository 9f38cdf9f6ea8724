#include "cc/rewrite/gradient_sources.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/control_flow.h"
#include "cc/graph/op_facts.h"
#include "cc/graph/shapes.h"
#include "cc/rewrite/elementwise.h"
#include "cc/rewrite/row_moments.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// What is written to a variable immediately before the node reads it; as
// `w.assign(…)` is read, for instance.
std::vector<absl::string_view> WrittenBefore(const tf::NodeDef& read,
                                             const ProgramGraph& graph) {
  std::vector<absl::string_view> values;
  if (read.op() == "Assign" || read.op() == "AssignAdd" || read.op() == "AssignSub") {
    values.push_back(read.input(1));  // gives what it has written
    return values;
  }
  if (read.op() != "ReadVariableOp" || read.input_size() < 2) return values;
  for (int i = 1; i < read.input_size(); ++i) {
    const tf::NodeDef* const write = graph.Find(ParseTensor(read.input(i)).node);
    const bool assigns = write != nullptr && (write->op() == "AssignVariableOp" ||
                                              write->op() == "AssignAddVariableOp" ||
                                              write->op() == "AssignSubVariableOp");
    if (assigns && Canonical(write->input(0)) == Canonical(read.input(0))) {
      values.push_back(write->input(1));
    }
  }
  return values;
}

// Goes back from what is written to what it is made from.
class SourceFinder {
 public:
  // `moments`: of the batch. Their own gradients are looked for by others.
  SourceFinder(const ProgramGraph& graph, const RunSpec& spec,
               const std::vector<const tf::NodeDef*>& nodes,
               const absl::flat_hash_set<std::string>& moments)
      : graph_(graph),
        feeds_(FeedsOf(spec)),
        dependent_(DependOnFeeds(spec, nodes, moments, &graph)),
        with_moments_(DependOnFeeds(spec, nodes, {}, &graph)) {}

  // The sources of `tensor`, none if it does not depend on what is fed.
  std::set<std::string> Find(const std::string& tensor) {
    found_.clear();
    seen_.clear();
    linear_ = true;
    Descend(tensor);
    return found_;
  }

  // Whether the tensor found last is linear in its sources.
  bool linear() const { return linear_; }

  // Whether the tensor sums up rows that are not linear in their sources, such as those
  // of an embedding's gradient that has been clipped. Forgets what has been found.
  bool SumsTransformedRows(const std::string& tensor) {
    const tf::NodeDef* const node = graph_.Find(ParseTensor(tensor).node);
    const bool sums = node->op() == "UnsortedSegmentSum";
    if (!sums && node->op() != "ConcatV2") return false;
    for (int i = 0; i < (sums ? 1 : node->input_size() - 1); ++i) {
      const std::set<std::string> sources = Find(node->input(i));
      if (!linear_) return true;
      for (const std::string& source : sources) {
        if (SumsTransformedRows(source)) return true;
      }
    }
    return false;
  }

  // Whether the tensor depends on what is fed.
  bool Depends(const std::string& tensor) const {
    return feeds_.contains(Canonical(tensor)) ||
           dependent_.contains(ParseTensor(tensor).node);
  }

 private:
  // Whether the operation is linear in `inputs`, those that depend on what is fed.
  static bool IsLinear(const tf::NodeDef& node, Elementwise kind,
                       const std::vector<std::string>& inputs) {
    switch (kind) {
      case Elementwise::kLinear:
      case Elementwise::kSum:
        return true;
      case Elementwise::kProduct: {
        const bool commutes = absl::StartsWith(node.op(), "Mul");
        return inputs.size() == 1 && (commutes || inputs[0] == node.input(0));
      }
      case Elementwise::kSelection:
        return !inputs.empty() && inputs[0] != node.input(0);
      default:
        return false;
    }
  }

  void Descend(const std::string& tensor) {
    const std::string name = Canonical(tensor);
    if (feeds_.contains(name) || !Depends(name) || !seen_.insert(name).second) return;
    const tf::NodeDef* const node = graph_.Find(ParseTensor(name).node);
    const auto written = WrittenBefore(*node, graph_);
    if (!written.empty()) {  // an optimiser's slot, read after it has been written
      for (absl::string_view value : written) Descend(std::string(value));
      return;
    }
    const Elementwise kind = ElementwiseOf(node->op());
    if (kind == Elementwise::kNo) {
      found_.insert(name);
      return;
    }
    std::vector<std::string> inputs;
    bool of_moments = false;  // an input depends on what is fed by way of moments only
    for (const std::string& input : node->input()) {
      const TensorName source = ParseTensor(input);
      if (source.control) continue;
      if (Depends(input)) {
        inputs.push_back(input);
      } else {
        of_moments |= with_moments_.contains(source.node);
      }
    }
    if (of_moments) {  // such as the gradient of a scale after the normalisation
      found_.insert(name);
      return;
    }
    linear_ &= IsLinear(*node, kind, inputs);
    if (kind == Elementwise::kSelection && !inputs.empty() &&
        inputs.front() == node->input(0)) {
      inputs.erase(inputs.begin());
    }
    if (kind == Elementwise::kSum && inputs.size() > 1) {
      found_.insert(name);
      return;
    }
    for (const std::string& input : inputs) Descend(input);
  }

  const ProgramGraph& graph_;
  const absl::flat_hash_set<std::string> feeds_;
  const absl::flat_hash_set<std::string> dependent_;
  const absl::flat_hash_set<std::string> with_moments_;
  std::set<std::string> found_;
  std::set<std::string> seen_;
  bool linear_ = true;
};

// Whether the node marks a gradient.
bool IsMark(const tf::NodeDef& node) {
  constexpr char kMark[] = "TensorBow.gradient";
  if (node.op() == "TensorBowReduceGradient") return true;
  if (node.op() != "Identity") return false;
  const absl::string_view name = node.name();
  const size_t begin = name.rfind('/') == name.npos ? 0 : name.rfind('/') + 1;
  return absl::StartsWith(name.substr(begin), kMark);
}

// Whether a tensor of this static shape surely is of the variable's, or surely not. If
// some sizes are known, and are the variable's, it is: `*shape` ← the variable's.
enum class Fit { kYes, kNo, kUnknown };
Fit FitOf(const tf::NodeDef& variable, tf::PartialTensorShape* shape) {
  const auto attribute = variable.attr().find("shape");
  if (attribute == variable.attr().end()) return Fit::kUnknown;
  const tf::PartialTensorShape wanted(attribute->second.shape());
  if (!wanted.IsFullyDefined() || shape->unknown_rank()) return Fit::kUnknown;
  if (!shape->IsFullyDefined()) {
    if (!shape->IsCompatibleWith(wanted)) return Fit::kNo;
    *shape = wanted;
  }
  return shape->num_elements() == wanted.num_elements() ? Fit::kYes : Fit::kNo;
}

// A source, and what is written by it, in the variable's or the slot's place.
struct FoundSource {
  GradientSource source;
  GradientSource operand;
};

// Of all that is written to variables. Of a slot only sums of transformed rows.
std::vector<FoundSource> CollectSources(
    const ProgramGraph& graph, const RunSpec& spec, const RunSpec& fed_rows,
    const RunAnalysis& analysis, const std::vector<const tf::NodeDef*>& nodes,
    const absl::flat_hash_set<std::string>& moments) {
  const absl::flat_hash_set<std::string> feeds = FeedsOf(spec);
  Dataflow dataflow(nodes, graph.functions(), [&feeds](absl::string_view tensor) {
    return feeds.contains(Canonical(tensor));
  });
  std::vector<const VariableUse*> variables;
  for (const auto& [name, use] : analysis.variables) {
    dataflow.AddRoot(name);
    variables.push_back(&use);
  }
  SourceFinder finder(graph, fed_rows, nodes, moments);
  std::vector<FoundSource> found;
  for (const tf::NodeDef* node : nodes) {
    const std::set<int> roots = dataflow.FirstRoots(*node);
    const std::vector<Input> inputs = dataflow.Inputs(*node);
    if (roots.empty() || !WritesInput(node->op(), *inputs[0].declaration) ||
        !CallsOf(*node, graph.functions()).empty()) {
      continue;
    }
    const Written written = WrittenBy(*node, inputs);
    if (written.value.empty()) continue;
    const bool optimises = FactsOf(node->op()).optimiser != OptimiserKind::kNone;
    const bool adds_rows = !written.indices.empty() && !written.replaces;
    const std::vector<std::string> others = OthersOf(*node, inputs);
    const bool by_rate = std::any_of(
        others.begin(), others.end(),
        [&finder](const std::string& other) { return finder.Depends(other); });
    for (int root : roots) {
      if (!variables[root]->trained && !adds_rows) continue;
      const GradientSource operand = {
          variables[root]->node->name(), Canonical(written.value),
          written.indices.empty() ? "" : Canonical(written.indices), written.replaces};
      const std::set<std::string> tensors = finder.Find(operand.tensor);
      const bool transformed =
          (optimises && by_rate) || ((optimises || adds_rows) && !finder.linear());
      for (const std::string& tensor : tensors) {
        if (LiesInControlFlow(graph, tensor)) continue;
        GradientSource source = operand;
        source.is_value = written.replaces && tensor == operand.tensor;
        source.tensor = tensor;
        source.of_transformed_rows = finder.SumsTransformedRows(tensor);
        source.transformed = transformed || source.of_transformed_rows;
        if (variables[root]->trained || source.of_transformed_rows) {
          found.push_back({std::move(source), operand});
        }
      }
    }
  }
  return found;
}

}  // namespace

Written WrittenBy(const tf::NodeDef& node, const std::vector<Input>& inputs) {
  Written written;
  // Rows named by more than one index are not looked at.
  if (absl::StrContains(node.op(), "ScatterNd")) return written;
  const bool optimises = FactsOf(node.op()).optimiser != OptimiserKind::kNone;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = inputs[i].declaration->name();
    if (name == "indices") written.indices = node.input(i);
    if (optimises ? name == "grad" || name == "delta"
                  : name == "value" || name == "updates") {
      written.value = node.input(i);
    }
  }
  written.replaces = !optimises && !FactsOf(node.op()).accumulates;
  return written;
}

std::vector<std::string> OthersOf(const tf::NodeDef& node,
                                  const std::vector<Input>& inputs) {
  std::vector<std::string> others;
  if (FactsOf(node.op()).optimiser == OptimiserKind::kNone) return others;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const tf::OpDef::ArgDef& declaration = *inputs[i].declaration;
    const bool told = declaration.name() == "indices" || declaration.name() == "grad" ||
                      declaration.name() == "delta";
    const bool variable = declaration.is_ref() || declaration.type() == tf::DT_RESOURCE;
    if (!told && !variable) others.push_back(Canonical(node.input(i)));
  }
  return others;
}

absl::flat_hash_set<std::string> DependOnFeeds(
    const RunSpec& spec, const std::vector<const tf::NodeDef*>& nodes,
    const absl::flat_hash_set<std::string>& cuts, const ProgramGraph* read_in) {
  const absl::flat_hash_set<std::string> feeds = FeedsOf(spec);
  absl::flat_hash_map<absl::string_view, std::vector<const tf::NodeDef*>> consumers;
  absl::flat_hash_set<std::string> dependent;
  std::vector<const tf::NodeDef*> pending;
  for (const tf::NodeDef* node : nodes) {
    bool fed = false;
    std::vector<absl::string_view> inputs(node->input().begin(), node->input().end());
    if (read_in != nullptr) {
      const auto written = WrittenBefore(*node, *read_in);
      inputs.insert(inputs.end(), written.begin(), written.end());
    }
    for (absl::string_view input : inputs) {
      const TensorName name = ParseTensor(input);
      if (name.control || cuts.contains(Canonical(input))) continue;
      if (feeds.contains(Canonical(input))) {
        fed = true;
      } else {
        consumers[name.node].push_back(node);
      }
    }
    if (fed && dependent.insert(node->name()).second) pending.push_back(node);
  }
  while (!pending.empty()) {
    const tf::NodeDef* const node = pending.back();
    pending.pop_back();
    const auto known = consumers.find(node->name());
    if (known == consumers.end()) continue;
    for (const tf::NodeDef* consumer : known->second) {
      if (dependent.insert(consumer->name()).second) pending.push_back(consumer);
    }
  }
  return dependent;
}

RunSpec FedRows(const ProgramGraph& graph, const RunSpec& spec) {
  RunSpec fed;
  fed.feeds = spec.feeds;
  const auto shapes = InferShapes(graph, fed);
  RunSpec rows = spec;
  const auto is_scalar = [&shapes](const std::string& feed) {
    const auto shape = shapes.find(feed);
    return shape != shapes.end() && !shape->second.unknown_rank() &&
           shape->second.dims() == 0;
  };
  rows.feeds.erase(std::remove_if(rows.feeds.begin(), rows.feeds.end(), is_scalar),
                   rows.feeds.end());
  return rows;
}

std::vector<GradientSource> FindGradientSources(const ProgramGraph& graph,
                                                const RunSpec& spec,
                                                const RunAnalysis& analysis) {
  std::vector<const tf::NodeDef*> nodes;
  std::vector<GradientSource> sources;
  if (!graph.Needed(spec, &nodes).ok()) return sources;
  for (const tf::NodeDef* node : nodes) {
    if (!IsMark(*node) || LiesInControlFlow(graph, node->name())) continue;
    sources.push_back({node->name(), Canonical(node->input(0)), "", false});
  }
  if (!sources.empty()) return sources;
  const RunSpec fed_rows = FedRows(graph, spec);
  const auto moments = MomentTensors(graph, spec, nodes);
  std::vector<FoundSource> found =
      CollectSources(graph, spec, fed_rows, analysis, nodes, moments);

  // What is not of the variable's shape is no gradient of it.
  RunSpec described = spec;
  for (const auto& [source, operand] : found) {
    described.fetches.push_back(BeforeLoop(graph, source.tensor));
  }
  const auto shapes = InferShapes(graph, described);
  std::vector<Fit> fits;
  absl::flat_hash_set<std::string> cuts = moments;
  for (auto& [source, operand] : found) {
    const tf::NodeDef& variable = *analysis.variables.at(source.variable).node;
    tf::PartialTensorShape shape = shapes.at(BeforeLoop(graph, source.tensor));
    fits.push_back(source.indices.empty() ? FitOf(variable, &shape) : Fit::kYes);
    if (fits.back() == Fit::kYes) source.shape = shape;
    if (fits.back() != Fit::kNo) cuts.insert(source.tensor);
  }
  // What is written may depend on more than gradients: then it is looked at itself.
  const auto beside = DependOnFeeds(fed_rows, nodes, cuts, &graph);
  std::map<std::pair<std::string, std::string>, bool> explained;  // by what is written
  for (size_t i = 0; i < found.size(); ++i) {
    const auto& [source, operand] = found[i];
    // What is transformed may not be taken for what is not, whatever its shape.
    const bool fit =
        fits[i] == Fit::kYes || (fits[i] == Fit::kUnknown && source.transformed);
    explained[{operand.variable, operand.tensor}] |=
        fit && (cuts.contains(operand.tensor) ||
                !beside.contains(std::string(ParseTensor(operand.tensor).node)));
  }
  std::vector<GradientSource> fitting;
  std::set<std::pair<std::string, std::string>> seen;
  for (size_t i = 0; i < found.size(); ++i) {
    const GradientSource& operand = found[i].operand;
    const bool whole = explained.at({operand.variable, operand.tensor}) ||
                       LiesInControlFlow(graph, operand.tensor);
    const GradientSource& source = whole ? found[i].source : operand;
    const bool fit = !whole || fits[i] != Fit::kNo;
    if (fit && seen.insert({source.variable, source.tensor}).second) {
      fitting.push_back(source);
    }
  }
  return fitting;
}

}  // namespace tensorbow
