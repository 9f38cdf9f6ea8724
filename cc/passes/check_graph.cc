#include "cc/passes/check_graph.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/acyclic.h"
#include "cc/graph/program_graph.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

absl::Status TwiceNamed(absl::string_view node) {
  return absl::InternalError(absl::StrCat("two nodes have the name '", node, "'"));
}

absl::Status WithoutProducer(absl::string_view node, absl::string_view input) {
  return absl::InternalError(
      absl::StrCat("input '", input, "' of '", node, "' has no producer"));
}

bool ClosesLoop(const tf::NodeDef& node) {
  return node.op() == "NextIteration" || node.op() == "RefNextIteration";
}

// Returns Internal unless the nodes have an order in which each follows its inputs.
// REQUIRES: all inputs have producers.
absl::Status CheckOrder(const tf::GraphDef& graph) {
  absl::flat_hash_map<absl::string_view, int> left;  // inputs not yet visited
  absl::flat_hash_map<absl::string_view, std::vector<absl::string_view>> users;
  std::vector<absl::string_view> open;
  for (const tf::NodeDef& node : graph.node()) {
    left[node.name()] = node.input_size();
    for (const std::string& input : node.input()) {
      users[ParseTensor(input).node].push_back(node.name());
    }
    if (node.input_size() == 0) open.push_back(node.name());
  }
  for (const tf::NodeDef& node : graph.node()) {
    if (!ClosesLoop(node)) continue;
    for (absl::string_view user : users[node.name()]) {
      if (--left[user] == 0) open.push_back(user);
    }
    users.erase(node.name());
  }
  int ordered = 0;
  for (; !open.empty(); ++ordered) {
    const absl::string_view node = open.back();
    open.pop_back();
    const auto found = users.find(node);
    if (found == users.end()) continue;
    for (absl::string_view user : found->second) {
      if (--left[user] == 0) open.push_back(user);
    }
  }
  if (ordered == graph.node_size()) return absl::OkStatus();
  return absl::InternalError("nodes wait for each other in a circle");
}

}  // namespace

absl::Status CheckGraph(const ProgramDraft& draft) {
  absl::flat_hash_set<absl::string_view> names;
  const tf::GraphDef& graph = draft.graph().graph_def();
  for (const tf::NodeDef& node : graph.node()) {
    if (!names.insert(node.name()).second) return TwiceNamed(node.name());
  }
  for (const tf::NodeDef& node : graph.node()) {
    for (const std::string& input : node.input()) {
      if (names.contains(ParseTensor(input).node)) continue;
      return WithoutProducer(node.name(), input);
    }
  }
  return CheckOrder(graph);
}

absl::Status CheckGraph(const TaskGraph& task) {
  for (const TaskPart& part : task.parts) {
    absl::flat_hash_set<absl::string_view> names;
    for (const tf::Node* node : part.graph->op_nodes()) {
      if (!names.insert(node->name()).second) return TwiceNamed(node->name());
      int inputs = 0;
      for (const tf::Edge* edge : node->in_edges()) inputs += !edge->IsControlEdge();
      if (inputs != node->num_inputs()) {
        return WithoutProducer(node->name(), absl::StrCat(inputs));
      }
    }
    TF_RETURN_IF_ERROR(CheckAcyclic(*part.graph));
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
