#include "cc/graph/acyclic.h"

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/op_facts.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns whether the edge leads from one iteration of a loop to the next.
bool GoesBack(const tf::Edge& edge) {
  return edge.src()->IsNextIteration() && edge.dst()->IsMerge();
}

// Returns the name of a node that waits for itself, if possible one of the program.
// `awaited`: the number of inputs that a node still waits for. REQUIRES: `node` waits.
std::string NameInCircle(const tf::Node* node, const std::vector<int>& awaited) {
  const auto awaits = [&](const tf::Edge* edge) {
    return !GoesBack(*edge) && awaited[edge->src()->id()] > 0;
  };
  // Every waiting node is downstream of a circle.
  std::vector<const tf::Node*> way;
  std::vector<bool> seen(awaited.size(), false);
  for (; !seen[node->id()];
       node = (*absl::c_find_if(node->in_edges(), awaits))->src()) {
    seen[node->id()] = true;
    way.push_back(node);
  }
  way.erase(way.begin(), absl::c_find(way, node));
  const auto own = absl::c_find_if(way, [](const tf::Node* node) {
    return ProgramsName(node->name()) == node->name();
  });
  return std::string(ProgramsName((own == way.end() ? node : *own)->name()));
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
        "'", NameInCircle(node, awaited),
        "' waits for a value that learners exchange, and they exchange none before it. "
        "Use tensorbow.SMA()"));
  }
  return absl::InternalError("An edge of a task graph comes from outside of it");
}

}  // namespace tensorbow
