#include "cc/passes/program/gradients_first.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "cc/graph/op_facts.h"
#include "cc/passes/task/reduce_gradients.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using Nodes = absl::flat_hash_set<const tf::NodeDef*>;

// Returns true if the op writes the variable of its first input.
bool IsUpdate(const std::string& op) {
  return FactsOf(op).optimiser != OptimiserKind::kNone ||
         (absl::StartsWith(op, "Assign") && absl::EndsWith(op, "VariableOp"));
}

// Returns the nodes downstream of others, which are included.
Nodes DownstreamOf(const RunGraph& run, const Nodes& from, bool over_control_edges) {
  Nodes found = from;
  std::vector<const tf::NodeDef*> open(from.begin(), from.end());
  while (!open.empty()) {
    const tf::NodeDef* const node = open.back();
    open.pop_back();
    for (const RunGraph::Use& use : run.consumers(node->name())) {
      const bool waits = ParseTensor(use.node->input(use.input)).control;
      if (waits && !over_control_edges) continue;
      if (found.insert(use.node).second) open.push_back(use.node);
    }
  }
  return found;
}

}  // namespace

absl::Status CheckGradientsFirst(const RunGraph& run, const RunAnalysis& analysis) {
  Nodes reads, updates, late_reads;
  for (const auto& [variable, variable_use] : analysis.variables) {
    if (!variable_use.trained) continue;
    for (const RunGraph::Use& use : run.consumers(variable)) {
      const std::string& op = use.node->op();
      if (use.input == 0 && op == "ReadVariableOp") reads.insert(use.node);
      if (use.input == 0 && IsUpdate(op)) updates.insert(use.node);
    }
  }
  for (const tf::NodeDef* node : DownstreamOf(run, updates, true)) {
    if (reads.contains(node)) late_reads.insert(node);
  }
  if (late_reads.empty()) return absl::OkStatus();
  const Nodes late = DownstreamOf(run, late_reads, false);
  for (const tf::NodeDef* node : run.nodes()) {
    if (node->op() != kReduceGradient && node->op() != kReduceRows) continue;
    for (const std::string& input : node->input()) {
      const TensorName gradient = ParseTensor(input);
      if (gradient.control || !late.contains(run.Find(gradient.node))) continue;
      return ComputedLate(gradient.node, "after another update");
    }
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
