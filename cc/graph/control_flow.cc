#include "cc/graph/control_flow.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
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

namespace {

// Returns the tensor that identities pass on as `tensor`.
std::string SourceOf(const ProgramGraph& graph, std::string tensor) {
  const tf::NodeDef* node = graph.Find(ParseTensor(tensor).node);
  while (node != nullptr && node->op() == "Identity") {
    tensor = node->input(0);
    node = graph.Find(ParseTensor(tensor).node);
  }
  return Canonical(tensor);
}

// Returns the value of each predicate on which the node's execution depends; nullopt if
// it lies in a loop, or if they are not known.
std::optional<std::map<std::string, bool>> ConditionsOf(const ProgramGraph& graph,
                                                        absl::string_view start) {
  using Place = std::pair<std::string, int>;  // a tensor, and conditionals entered
  std::map<std::string, bool> conditions;
  std::set<Place> seen;
  std::vector<Place> pending{{std::string(start), 0}};
  while (!pending.empty()) {
    const Place place = pending.back();
    pending.pop_back();
    if (!seen.insert(place).second) continue;
    int conditionals = place.second;
    const TensorName tensor = ParseTensor(place.first);
    const tf::NodeDef* const node = graph.Find(tensor.node);
    if (node == nullptr) continue;
    const std::string& op = node->op();
    if (op == "Enter" || op == "RefEnter" || op == "Exit" || op == "RefExit" ||
        op == "_SwitchN" || BeginsIterations(graph, *node)) {
      return std::nullopt;
    }
    if (op == "Merge" || op == "RefMerge") {
      ++conditionals;
    } else if ((op == "Switch" || op == "RefSwitch") && !tensor.control) {
      if (conditionals > 0) {
        --conditionals;
      } else {
        const bool value = tensor.index == 1;
        const auto known = conditions.emplace(SourceOf(graph, node->input(1)), value);
        if (known.first->second != value) return std::nullopt;
      }
    }
    for (const std::string& input : node->input()) {
      pending.emplace_back(input, conditionals);
    }
  }
  return conditions;
}

}  // namespace

std::optional<std::vector<Branch>> BranchesOf(const ProgramGraph& graph,
                                              absl::string_view node) {
  const auto conditions = ConditionsOf(graph, node);
  if (!conditions.has_value()) return std::nullopt;
  std::vector<std::pair<size_t, Branch>> branches;  // with their depths
  for (const auto& [predicate, value] : *conditions) {
    const auto outer = ConditionsOf(graph, predicate);
    if (!outer.has_value()) return std::nullopt;
    branches.push_back({outer->size(), {predicate, value}});
  }
  std::stable_sort(branches.begin(), branches.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Branch> ordered;
  for (auto& [depth, branch] : branches) ordered.push_back(std::move(branch));
  return ordered;
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
