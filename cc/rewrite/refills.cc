#include "cc/rewrite/refills.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "cc/rewrite/op_kinds.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

bool Puts(absl::string_view op) {
  return absl::StrContains(op, "Enqueue") || absl::StrContains(op, "InsertMany") ||
         op == "Stage" || absl::EndsWith(op, "MapStage");
}

bool Takes(absl::string_view op) {
  return absl::StrContains(op, "Dequeue") || absl::StrContains(op, "TakeMany") ||
         op == "Unstage" || absl::StrContains(op, "MapUnstage");
}

// What tells the store of elements that a node uses from others: the node that a
// queue's or a barrier's handle comes from, or the container and the name of a staging
// area.
using Store = std::pair<std::string, std::string>;

Store StoreOf(const tf::Node& user) {
  const tf::Node* node = &user;
  if (!absl::StrContains(user.type_string(), "tage")) {
    do {
      if (!node->input_node(0, &node).ok()) break;
    } while (node->num_inputs() > 0 &&
             ForwardsOf(node->type_string()) != Forwards::kNothing);
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
    if (Takes(node->type_string())) taken_from.insert(StoreOf(*node));
  }
  std::vector<tf::Node*> refills;
  for (tf::Node* node : graph.op_nodes()) {
    if (Puts(node->type_string()) && taken_from.count(StoreOf(*node)) > 0) {
      refills.push_back(node);
    }
  }
  std::sort(refills.begin(), refills.end(),
            [](const tf::Node* a, const tf::Node* b) { return a->name() < b->name(); });
  return refills;
}

}  // namespace tensorbow
