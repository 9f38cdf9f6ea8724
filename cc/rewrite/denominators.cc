#include "cc/rewrite/denominators.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "cc/graph/control_flow.h"

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

// Whether the op hands no gradient back.
bool EndsGradients(absl::string_view op) {
  static const auto* const ops =
      new NameSet({"StopGradient", "Equal", "NotEqual", "Less", "LessEqual", "Greater",
                   "GreaterEqual", "ArgMax", "ArgMin", "InTopK", "InTopKV2"});
  return TellsShape(op) || ops->contains(op);
}

// What is reached from feeds and from trained variables, each found in one pass.
class Reach {
 public:
  Reach(const RunSpec& spec, const RunAnalysis& analysis,
        const std::vector<const tf::NodeDef*>& nodes) {
    const absl::flat_hash_set<std::string> feeds = FeedsOf(spec);
    for (const tf::NodeDef* node : nodes) {
      const auto variable = analysis.variables.find(node->name());
      if (variable != analysis.variables.end() && variable->second.trained) {
        Add(node, kTrained);
      }
      for (const std::string& input : node->input()) {
        const TensorName name = ParseTensor(input);
        if (name.control) continue;
        if (feeds.contains(Canonical(input))) {
          HandOn(node, kValue);
        } else {
          consumers_[name.node].push_back(node);
        }
      }
    }
    while (!pending_.empty()) {
      const auto [node, what] = pending_.back();
      pending_.pop_back();
      for (const tf::NodeDef* consumer : consumers_[node->name()]) {
        HandOn(consumer, what);
      }
    }
  }

  // Whether the node is computed from fed values, and not only from their shapes.
  bool ByValues(absl::string_view node) const { return Has(node, kValue); }
  // Whether gradients flow from it to a trained variable.
  bool ByTrained(absl::string_view node) const { return Has(node, kTrained); }

 private:
  enum What { kValue = 1, kShape = 2, kTrained = 4 };  // of kShape, by values

  // `what` has reached an input of the node.
  void HandOn(const tf::NodeDef* node, What what) {
    const absl::string_view op = node->op();
    if (what == kTrained) {
      if (!EndsGradients(op)) Add(node, kTrained);
    } else if (what == kShape) {
      Add(node, TellsShape(op) ? kValue : kShape);
    } else if (!TellsShape(op)) {
      Add(node, kValue);
      if (ShapesByValues(op)) Add(node, kShape);
    }
  }

  void Add(const tf::NodeDef* node, What what) {
    int& known = reached_[node->name()];
    if ((known & what) != 0) return;
    known |= what;
    pending_.emplace_back(node, what);
  }

  bool Has(absl::string_view node, What what) const {
    const auto found = reached_.find(node);
    return found != reached_.end() && (found->second & what) != 0;
  }

  absl::flat_hash_map<absl::string_view, std::vector<const tf::NodeDef*>> consumers_;
  absl::flat_hash_map<absl::string_view, int> reached_;
  std::vector<std::pair<const tf::NodeDef*, What>> pending_;
};

}  // namespace

std::map<std::string, Denominator> FindDenominators(const ProgramGraph& graph,
                                                    const RunSpec& spec,
                                                    const RunAnalysis& analysis) {
  std::map<std::string, Denominator> denominators;
  std::vector<const tf::NodeDef*> nodes;
  if (!graph.Needed(spec, &nodes).ok()) return denominators;
  const Reach reach(spec, analysis, nodes);
  const auto by_values = [&](absl::string_view tensor) {
    return reach.ByValues(ParseTensor(tensor).node);
  };
  for (const tf::NodeDef* node : nodes) {
    const bool divides =
        node->op() == "RealDiv" || node->op() == "Div" || node->op() == "DivNoNan";
    if (!divides) continue;
    const std::string by = Canonical(node->input(1));
    const absl::string_view producer = ParseTensor(by).node;
    if (!by_values(by) || reach.ByTrained(producer) ||
        LiesInControlFlow(graph, node->name())) {
      continue;
    }
    Denominator& denominator = denominators[by];
    denominator.users.insert(node->name());
    const tf::NodeDef* const made = graph.Find(producer);
    if (made == nullptr ||
        (made->op() != "Maximum" && made->op() != "Add" && made->op() != "AddV2")) {
      continue;
    }
    for (int i = 0; i < 2; ++i) {
      if (!by_values(made->input(i)) || by_values(made->input(1 - i))) continue;
      denominator.total = Canonical(made->input(i));
      denominator.total_user = made->name();
    }
  }
  return denominators;
}

}  // namespace tensorbow
