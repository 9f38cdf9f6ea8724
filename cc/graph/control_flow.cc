#include "cc/graph/control_flow.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns whether the node begins the iterations of a loop.
bool BeginsIterations(const ProgramGraph& graph, const tf::NodeDef& node) {
  if (node.op() != "Merge" && node.op() != "RefMerge") return false;
  for (const std::string& input : node.input()) {
    const tf::NodeDef* const source = graph.Find(ParseTensor(input).node);
    if (source != nullptr &&
        (source->op() == "NextIteration" || source->op() == "RefNextIteration")) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool LiesInControlFlow(const ProgramGraph& graph, absl::string_view tensor) {
  // Nodes, and how many conditionals and loops have been entered from behind, through a
  // Merge or an Exit, on the way to them. One that is left in front outside of those is
  // around the tensor.
  std::set<std::pair<absl::string_view, int>> seen;
  std::vector<std::pair<absl::string_view, int>> pending{{ParseTensor(tensor).node, 0}};
  while (!pending.empty()) {
    const auto [current, inside] = pending.back();
    pending.pop_back();
    const tf::NodeDef* const node = graph.Find(current);
    if (node == nullptr || !seen.insert({current, inside}).second) continue;
    const std::string& op = node->op();
    if (op == "LoopCond") continue;  // says how often, not what
    if (inside == 0 && BeginsIterations(graph, *node)) return true;
    const bool begins =
        op == "Switch" || op == "RefSwitch" || op == "Enter" || op == "RefEnter";
    const bool ends =
        op == "Merge" || op == "RefMerge" || op == "Exit" || op == "RefExit";
    if (begins && inside == 0) return true;
    for (const std::string& input : node->input()) {
      pending.push_back({ParseTensor(input).node, inside + ends - begins});
    }
  }
  return false;
}

std::string BeforeLoop(const ProgramGraph& graph, const std::string& tensor) {
  const auto producer = [&graph](const std::string& name) {
    const tf::NodeDef* const node = graph.Find(ParseTensor(name).node);
    return node == nullptr ? tf::NodeDef::default_instance() : *node;
  };
  const tf::NodeDef exit = producer(tensor);
  if (exit.op() != "Exit") return tensor;
  const tf::NodeDef leave = producer(exit.input(0));
  const tf::NodeDef merge = leave.op() == "Switch" ? producer(leave.input(0)) : leave;
  if (merge.op() != "Merge") return tensor;
  for (const std::string& input : merge.input()) {
    const tf::NodeDef enter = producer(input);
    if (enter.op() == "Enter") return Canonical(enter.input(0));
  }
  return tensor;
}

}  // namespace tensorbow
