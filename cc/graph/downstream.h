// The nodes downstream of others in a graph.
#ifndef TENSORBOW_CC_GRAPH_DOWNSTREAM_H_
#define TENSORBOW_CC_GRAPH_DOWNSTREAM_H_

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "tensorflow/core/graph/control_flow.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

using NodeSet = std::set<const tensorflow::Node*>;

// Returns all nodes reached from `start` by edges that `follow` accepts.
template <typename Follow>
NodeSet Downstream(std::vector<const tensorflow::Node*> start, Follow follow) {
  NodeSet reached;
  while (!start.empty()) {
    const tensorflow::Node* const node = start.back();
    start.pop_back();
    for (const tensorflow::Edge* edge : node->out_edges()) {
      if (!follow(*edge) || !reached.insert(edge->dst()).second) continue;
      start.push_back(edge->dst());
    }
  }
  return reached;
}

// Returns whether no other op needs the node.
inline bool IsEnd(const tensorflow::Node& node) {
  return std::all_of(
      node.out_edges().begin(), node.out_edges().end(),
      [](const tensorflow::Edge* edge) { return edge->dst()->IsSink(); });
}

// Returns the nodes that may not be executed, or more than once: in branches of
// conditionals, and in loops, their conditions included.
inline NodeSet Conditional(const tensorflow::Graph& graph) {
  std::vector<const tensorflow::Node*> switches;
  for (const tensorflow::Node* node : graph.op_nodes()) {
    if (node->IsSwitch()) switches.push_back(node);
  }
  if (switches.empty()) return {};
  NodeSet nodes = Downstream(std::move(switches), [](const tensorflow::Edge& edge) {
    return !edge.dst()->IsMerge() && !edge.dst()->IsExit();
  });
  std::vector<tensorflow::ControlFlowInfo> info;  // by node
  if (!tensorflow::BuildControlFlowInfo(&graph, &info).ok()) return nodes;
  for (const tensorflow::Node* node : graph.op_nodes()) {
    const tensorflow::ControlFlowInfo& own = info[node->id()];
    const bool leaves = node->IsExit() && own.parent_frame != nullptr;
    const auto& frame =
        leaves ? info[own.parent_frame->id()].frame_name : own.frame_name;
    if (!frame.empty()) nodes.insert(node);
  }
  return nodes;
}

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_DOWNSTREAM_H_
