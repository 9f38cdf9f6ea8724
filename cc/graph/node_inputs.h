// The neighbourhood of a node in a graph. Pure functions.
#ifndef TENSORBOW_CC_GRAPH_NODE_INPUTS_H_
#define TENSORBOW_CC_GRAPH_NODE_INPUTS_H_

#include <initializer_list>

#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// A tensor of a graph.
struct NodeOutput {
  tensorflow::Node* node = nullptr;
  int index = 0;

  bool operator==(const NodeOutput& other) const {
    return node == other.node && index == other.index;
  }
};

// Returns the tensor at an input of the node; no node if there is no such input.
inline NodeOutput InputOf(const tensorflow::Node& node, int input) {
  const tensorflow::Edge* edge = nullptr;
  if (!node.input_edge(input, &edge).ok()) return {};
  return {edge->src(), edge->src_output()};
}

// Returns whether there is a node and its op is one of these.
inline bool IsOp(const tensorflow::Node* node, std::initializer_list<const char*> ops) {
  if (node == nullptr) return false;
  for (const char* op : ops) {
    if (node->type_string() == op) return true;
  }
  return false;
}

// Returns whether only `user`, and control edges, take outputs of the node.
inline bool IsOnlyFor(const tensorflow::Node& node, const tensorflow::Node* user) {
  for (const tensorflow::Edge* edge : node.out_edges()) {
    if (!edge->IsControlEdge() && edge->dst() != user) return false;
  }
  return true;
}

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_NODE_INPUTS_H_
