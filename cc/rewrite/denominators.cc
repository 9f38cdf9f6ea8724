#include "cc/rewrite/denominators.h"

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "cc/rewrite/control_flow.h"
#include "cc/rewrite/gradient_sources.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using NameSet = absl::flat_hash_set<absl::string_view>;

// Whether the op says no more of its inputs than their shapes.
bool TellsShape(absl::string_view op) {
  static const auto* const ops =
      new NameSet({"Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike"});
  return ops->contains(op);
}

// Whether the shape of what the op computes depends on values of its inputs.
bool ShapesByValues(absl::string_view op) {
  static const auto* const ops =
      new NameSet({"Where", "Unique", "UniqueV2", "UniqueWithCounts",
                   "UniqueWithCountsV2", "ListDiff", "DynamicPartition"});
  return ops->contains(op);
}

bool DependsOnValues(const ProgramGraph& graph, const RunSpec& spec,
                     const std::string& tensor) {
  std::set<std::string> feeds;
  for (const std::string& feed : spec.feeds) feeds.insert(Canonical(feed));
  using Place = std::pair<std::string, bool>;  // a tensor; only its shape is asked for
  std::set<Place> reached;
  std::vector<Place> open = {{tensor, false}};
  while (!open.empty()) {
    const Place place = open.back();
    open.pop_back();
    const auto& [name, shape_only] = place;
    if (!reached.insert(place).second) continue;
    if (feeds.count(name) > 0) {
      if (!shape_only) return true;
      continue;
    }
    const tf::NodeDef* const node = graph.Find(ParseTensor(name).node);
    if (node == nullptr) continue;
    const bool shape =
        TellsShape(node->op()) || (shape_only && !ShapesByValues(node->op()));
    for (const std::string& input : node->input()) {
      if (!ParseTensor(input).control) open.emplace_back(Canonical(input), shape);
    }
  }
  return false;
}

}  // namespace

bool DependsOnTrained(const ProgramGraph& graph, const RunAnalysis& analysis,
                      absl::string_view tensor) {
  static const auto* const without_gradient =
      new NameSet({"StopGradient", "Equal", "NotEqual", "Less", "LessEqual", "Greater",
                   "GreaterEqual", "ArgMax", "ArgMin", "InTopK", "InTopKV2"});
  std::set<absl::string_view> reached;
  std::vector<absl::string_view> open = {ParseTensor(tensor).node};
  while (!open.empty()) {
    const absl::string_view name = open.back();
    open.pop_back();
    const tf::NodeDef* const node = graph.Find(name);
    if (node == nullptr || TellsShape(node->op()) ||
        without_gradient->contains(node->op()) ||
        !reached.insert(node->name()).second) {
      continue;
    }
    const auto variable = analysis.variables.find(node->name());
    if (variable != analysis.variables.end() && variable->second.trained) return true;
    for (const std::string& input : node->input()) {
      if (!ParseTensor(input).control) open.push_back(ParseTensor(input).node);
    }
  }
  return false;
}

std::map<std::string, Denominator> FindDenominators(const ProgramGraph& graph,
                                                    const RunSpec& spec,
                                                    const RunAnalysis& analysis) {
  std::map<std::string, Denominator> denominators;
  std::vector<const tf::NodeDef*> nodes;
  if (!graph.Needed(spec, &nodes).ok()) return denominators;
  const auto dependent = DependOnFeeds(spec, nodes);
  for (const tf::NodeDef* node : nodes) {
    const bool divides =
        node->op() == "RealDiv" || node->op() == "Div" || node->op() == "DivNoNan";
    if (!divides || LiesInControlFlow(graph, node->name())) continue;
    const std::string by = Canonical(node->input(1));
    if (!dependent.contains(ParseTensor(by).node)) continue;
    denominators[by].users.insert(node->name());
  }
  for (auto it = denominators.begin(); it != denominators.end();) {
    if (DependsOnTrained(graph, analysis, it->first)) {
      it = denominators.erase(it);
      continue;
    }
    it->second.by_values = DependsOnValues(graph, spec, it->first);
    ++it;
  }
  return denominators;
}

}  // namespace tensorbow
