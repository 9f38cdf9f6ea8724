#include "cc/passes/task/refills.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "cc/graph/op_facts.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr int kLongestWay = 100;  // of a handle, which may pass through a loop

// The identity of a node's store of elements: container and name, of the node itself (a
// staging area's) or of the source of its handle.
using Store = std::pair<std::string, std::string>;

Store StoreOf(const tf::Node& user) {
  const tf::Node* node = &user;
  for (int i = 0; i < kLongestWay && node->num_inputs() > 0; ++i) {
    if (tf::HasNodeAttr(node->def(), "shared_name")) break;
    if (!node->input_node(0, &node).ok()) break;
  }
  std::string container, name;
  tf::TryGetNodeAttr(node->attrs(), "container", &container);
  tf::TryGetNodeAttr(node->attrs(), "shared_name", &name);
  return {container, name.empty() ? node->name() : name};
}

}  // namespace

std::vector<tf::Node*> Refills(const tf::Graph& graph) {
  std::set<Store> taken_from;
  for (const tf::Node* node : graph.op_nodes()) {
    if (FactsOf(node->type_string()).empties_store) taken_from.insert(StoreOf(*node));
  }
  std::vector<tf::Node*> refills;
  for (tf::Node* node : graph.op_nodes()) {
    if (FactsOf(node->type_string()).puts_data &&
        taken_from.count(StoreOf(*node)) > 0) {
      refills.push_back(node);
    }
  }
  std::sort(refills.begin(), refills.end(),
            [](const tf::Node* a, const tf::Node* b) { return a->name() < b->name(); });
  return refills;
}

}  // namespace tensorbow
