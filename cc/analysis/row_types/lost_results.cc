#include "cc/analysis/row_types/lost_results.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cc/graph/downstream.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns whether the node can never be executed: it needs a predicate to be both true
// and false.
bool IsNeverExecuted(const TypedGraph& graph, const tf::Node& node) {
  std::map<const tf::Node*, int> needed;  // the output of a switch, by its predicate
  std::vector<const tf::Node*> open = {&node};
  NodeSet seen;
  while (!open.empty()) {
    const tf::Node* const current = open.back();
    open.pop_back();
    // A merge waits for one of its inputs only.
    if (!seen.insert(current).second || current->IsMerge() || current->IsEnter()) {
      continue;
    }
    for (const tf::Edge* edge : current->in_edges()) {
      const tf::Node* const source = edge->src();
      if (!source->IsOp()) continue;
      open.push_back(source);
      if (!source->IsSwitch() || edge->IsControlEdge()) continue;
      const tf::Node* const predicate = graph.inputs[source->id()][1].node;
      const auto known = needed.emplace(predicate, edge->src_output());
      if (known.first->second != edge->src_output()) return true;
    }
  }
  return false;
}

std::shared_ptr<const RowReason> Unknown(const tf::Node* node, std::string text) {
  return std::make_shared<RowReason>(
      RowReason{node->name(), node->type_string(), std::move(text)});
}

}  // namespace

std::shared_ptr<const RowReason> FindLostResult(const TypedGraph& graph) {
  for (const tf::Node* node : graph.graph->op_nodes()) {
    if (!node->IsExit() || !IsNeverExecuted(graph, *node)) continue;
    return Unknown(node, "is the result of a loop that TensorFlow loses");
  }
  return nullptr;
}

}  // namespace tensorbow
