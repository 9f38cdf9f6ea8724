#include "cc/graph/acyclic.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// From one iteration of a loop to the next.
bool GoesBack(const tf::Edge& edge) {
  return edge.src()->IsNextIteration() && edge.dst()->IsMerge();
}

}  // namespace

absl::Status CheckAcyclic(const tf::Graph& graph) {
  std::vector<int> awaited(graph.num_node_ids(), 0);
  std::vector<const tf::Node*> ready;
  for (const tf::Node* node : graph.nodes()) {
    for (const tf::Edge* edge : node->in_edges()) {
      awaited[node->id()] += !GoesBack(*edge);
    }
    if (awaited[node->id()] == 0) ready.push_back(node);
  }
  int executed = 0;
  for (; !ready.empty(); ++executed) {
    const tf::Node* const node = ready.back();
    ready.pop_back();
    for (const tf::Edge* edge : node->out_edges()) {
      if (!GoesBack(*edge) && --awaited[edge->dst()->id()] == 0) {
        ready.push_back(edge->dst());
      }
    }
  }
  if (executed == graph.num_nodes()) return absl::OkStatus();
  for (const tf::Node* node : graph.op_nodes()) {
    if (awaited[node->id()] == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "'", node->name(), "' would wait for what waits for it. Use tensorbow.SMA()"));
  }
  return absl::InternalError("An edge of a task graph comes from outside of it");
}

}  // namespace tensorbow
