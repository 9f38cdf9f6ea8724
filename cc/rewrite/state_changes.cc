#include "cc/rewrite/state_changes.h"

#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/control_flow.h"
#include "cc/graph/dataflow.h"
#include "cc/graph/op_facts.h"
#include "cc/passes/task/reduce_gradients.h"
#include "cc/passes/task/share_variables.h"
#include "cc/rewrite/average_at_loss.h"
#include "cc/rewrite/elementwise.h"
#include "cc/rewrite/gradient_sources.h"
#include "cc/rewrite/row_moments.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using TensorSet = absl::flat_hash_set<std::string>;

// The nodes that depend on gradients, of which all learners have the same, and on rows
// by way of those only.
TensorSet FollowFromGradients(const ProgramGraph& graph, const RunSpec& spec,
                              const RunAnalysis& analysis,
                              const std::vector<const tf::NodeDef*>& nodes) {
  TensorSet gradients;
  for (const GradientSource& source :
       FindGradientsAtLoss(graph, spec, analysis).dense) {
    gradients.insert(Canonical(source.tensor));
  }
  for (const tf::NodeDef* node : nodes) {
    if (node->op() == kReduceGradient) gradients.insert(Canonical(node->input(0)));
  }
  RunSpec by_gradients = spec;
  by_gradients.feeds.assign(gradients.begin(), gradients.end());
  TensorSet follow = DependOnFeeds(by_gradients, nodes);
  for (const std::string& node :
       DependOnFeeds(FedRows(graph, spec), nodes, gradients)) {
    follow.erase(node);
  }
  return follow;
}

// Whether the tensor is the value of the root as it is.
bool IsValueOf(const ProgramGraph& graph, const std::string& tensor, int root,
               Dataflow* dataflow) {
  std::string name(ParseTensor(tensor).node);
  const tf::NodeDef* const node = graph.Find(name);
  if (node != nullptr && node->op() == "ReadVariableOp") {
    name = std::string(ParseTensor(node->input(0)).node);
  }
  return dataflow->Traced(name).count(root) > 0;
}

// Where the new value of a variable is its old one and something else, that is what
// is added to it.
void SeeSum(const ProgramGraph& graph, Dataflow* dataflow, int root,
            StateChange* change) {
  const tf::NodeDef* node = graph.Find(ParseTensor(change->tensor).node);
  while (node != nullptr && node->op() == "Identity") {
    node = graph.Find(ParseTensor(node->input(0)).node);
  }
  if (node == nullptr ||
      (node->op() != "Add" && node->op() != "AddV2" && node->op() != "Sub")) {
    return;
  }
  for (int i = 0; i < (node->op() == "Sub" ? 1 : 2); ++i) {
    if (!IsValueOf(graph, node->input(i), root, dataflow)) continue;
    change->tensor = Canonical(node->input(1 - i));
    change->user = node->name();
    change->replaces = false;
    return;
  }
}

// The roots from which, element by element or row by row, an update takes what it
// writes: an optimiser's slots.
void AddSlots(const ProgramGraph& graph, const std::string& operand, Dataflow* dataflow,
              std::set<int>* slots) {
  std::set<std::string> reached;
  std::vector<std::string> open = {operand};
  while (!open.empty()) {
    const std::string name(ParseTensor(open.back()).node);
    open.pop_back();
    const tf::NodeDef* const node = graph.Find(name);
    if (node == nullptr || !reached.insert(name).second) continue;
    const std::set<int>& traced = dataflow->Traced(node->name());
    slots->insert(traced.begin(), traced.end());
    const bool reads =
        node->op() == "ReadVariableOp" || absl::StrContains(node->op(), "Gather");
    if (!traced.empty() || !(reads || ElementwiseOf(node->op()) != Elementwise::kNo))
      continue;
    for (const std::string& input : node->input()) {
      if (!ParseTensor(input).control) open.push_back(input);
    }
  }
}

}  // namespace

std::vector<StateChange> FindStateChanges(const ProgramGraph& graph,
                                          const RunSpec& spec,
                                          const RunAnalysis& analysis) {
  std::vector<StateChange> changes;
  std::vector<const tf::NodeDef*> nodes;
  if (!graph.Needed(spec, &nodes).ok()) return changes;
  const TensorSet feeds = FeedsOf(spec);
  const TensorSet dependent =
      DependOnFeeds(spec, nodes, MomentTensors(graph, spec, nodes));
  const TensorSet same = FollowFromGradients(graph, spec, analysis, nodes);
  const auto depends = [&](const std::string& tensor) {
    return feeds.contains(Canonical(tensor)) ||
           dependent.contains(std::string(ParseTensor(tensor).node));
  };
  Dataflow dataflow(nodes, graph.functions(), [&feeds](absl::string_view tensor) {
    return feeds.contains(Canonical(tensor));
  });
  std::vector<const tf::NodeDef*> variables;
  std::vector<bool> trained;
  std::vector<std::string> names;
  for (const auto& [name, use] : analysis.variables) {
    dataflow.AddRoot(name);
    names.push_back(name);
    trained.push_back(use.trained);
    // Keras tells itself what becomes of its metrics.
    const bool told = use.node->attr().count(kAggregationAttribute) > 0;
    const bool state = use.written && !use.trained && !use.generator && !told;
    variables.push_back(state ? use.node : nullptr);
  }
  const RunSpec fed_rows = FedRows(graph, spec);
  const TensorSet by_rows = DependOnFeeds(fed_rows, nodes);
  std::set<int> slots;
  std::vector<std::pair<const tf::NodeDef*, Written>> writes;  // of state
  for (const tf::NodeDef* node : nodes) {
    const std::set<int> roots = dataflow.FirstRoots(*node);
    const std::vector<Input> inputs = dataflow.Inputs(*node);
    for (const std::string& rate : OthersOf(*node, inputs)) {
      const std::string producer(ParseTensor(rate).node);
      const bool fed = std::count(fed_rows.feeds.begin(), fed_rows.feeds.end(), rate);
      if (roots.empty() || same.contains(producer) ||
          !(fed || by_rows.contains(producer))) {
        continue;
      }
      StateChange change = {names[*roots.begin()], rate, node->name()};
      change.is_rate = true;
      changes.push_back(std::move(change));
    }
    if (roots.size() != 1 || !WritesInput(node->op(), *inputs[0].declaration) ||
        !CallsOf(*node, graph.functions()).empty() ||
        FactsOf(node->op()).optimiser != OptimiserKind::kNone) {
      continue;
    }
    const Written written = WrittenBy(*node, inputs);
    if (written.value.empty()) continue;
    if (trained[*roots.begin()]) AddSlots(graph, written.value, &dataflow, &slots);
    if (variables[*roots.begin()] != nullptr) writes.emplace_back(node, written);
  }
  for (const auto& [node, written] : writes) {
    const int root = *dataflow.FirstRoots(*node).begin();
    const bool by_row = !written.indices.empty();
    if (slots.count(root) > 0 || LiesInControlFlow(graph, node->name()) ||
        same.contains(std::string(ParseTensor(written.value).node)) ||
        !(depends(written.value) || (by_row && depends(written.indices)))) {
      continue;
    }
    StateChange change = {variables[root]->name(), Canonical(written.value),
                          node->name(), written.replaces, by_row};
    if (change.replaces) SeeSum(graph, &dataflow, root, &change);
    changes.push_back(std::move(change));
  }
  return changes;
}

}  // namespace tensorbow
