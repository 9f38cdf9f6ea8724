#include "cc/graph/control_flow.h"

#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns whether the node starts the iterations of a loop.
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

bool BeginsControlFlow(const tf::NodeDef& node) {
  return node.op() == "Switch" || node.op() == "RefSwitch" || node.op() == "Enter" ||
         node.op() == "RefEnter";
}

bool LiesInControlFlow(const ProgramGraph& graph, absl::string_view tensor) {
  // A node, and the numbers of loops and of conditionals entered backwards on the way
  // to it. Inside a loop only loops count.
  using Place = std::tuple<absl::string_view, int, int>;
  std::set<Place> seen;
  std::vector<Place> pending{{ParseTensor(tensor).node, 0, 0}};
  while (!pending.empty()) {
    const Place place = pending.back();
    pending.pop_back();
    auto [current, loops, conditionals] = place;
    const tf::NodeDef* const node = graph.Find(current);
    if (node == nullptr || !seen.insert(place).second) continue;
    const std::string& op = node->op();
    if (op == "LoopCond") continue;  // gives the number of iterations, not the value
    if (op == "Exit" || op == "RefExit") {
      ++loops;
    } else if (op == "Enter" || op == "RefEnter") {
      if (loops == 0) return true;
      --loops;
    } else if (loops == 0 && (op == "Merge" || op == "RefMerge")) {
      if (BeginsIterations(graph, *node)) return true;
      ++conditionals;
    } else if (loops == 0 && (op == "Switch" || op == "RefSwitch")) {
      if (conditionals == 0) return true;
      --conditionals;
    }
    for (const std::string& input : node->input()) {
      pending.push_back({ParseTensor(input).node, loops, conditionals});
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
