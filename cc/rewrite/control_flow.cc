#include "cc/rewrite/control_flow.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"

namespace tensorbow {

namespace tf = ::tensorflow;

bool LiesInControlFlow(const ProgramGraph& graph, absl::string_view tensor) {
  // Nodes, and how many conditionals (between Switch and Merge) have been entered from
  // behind on the way to them. A Switch outside of those begins one around the tensor.
  std::set<std::pair<absl::string_view, int>> seen;
  std::vector<std::pair<absl::string_view, int>> pending{{ParseTensor(tensor).node, 0}};
  while (!pending.empty()) {
    const auto [current, inside] = pending.back();
    pending.pop_back();
    const tf::NodeDef* node = graph.Find(current);
    if (node == nullptr || !seen.insert({current, inside}).second) continue;
    const bool branches = node->op() == "Switch" || node->op() == "RefSwitch";
    const bool joins = node->op() == "Merge" || node->op() == "RefMerge";
    if (absl::StrContains(node->op(), "Enter")) return true;
    if (branches && inside == 0) return true;
    for (const std::string& input : node->input()) {
      pending.push_back({ParseTensor(input).node, inside + joins - branches});
    }
  }
  return false;
}

}  // namespace tensorbow
