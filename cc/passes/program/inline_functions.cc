#include "cc/passes/program/inline_functions.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "cc/graph/downstream.h"
#include "cc/passes/program/rewrite_run.h"
#include "tensorflow/core/common_runtime/lower_function_call_inline_policy.h"
#include "tensorflow/core/common_runtime/lower_if_op.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns whether TensorFlow replaces the conditional by switches and merges.
bool IsLowered(const tf::AttrSlice& attributes, absl::string_view op) {
  bool lowers = false;
  return (op == "If" || op == "StatelessIf") &&
         tf::TryGetNodeAttr(attributes,
                            tf::LowerFunctionalOpsConstants::kLowerUsingSwitchMergeAttr,
                            &lowers) &&
         lowers;
}

// Lowers the conditionals in the graph once; returns whether there were any.
absl::StatusOr<bool> LowerOnce(tf::Graph* graph) {
  std::vector<tf::Node*> conditionals;
  for (tf::Node* node : graph->op_nodes()) {
    if (IsLowered(tf::AttrSlice(node->attrs()), node->type_string()) &&
        node->input_type(0) == tf::DT_BOOL) {
      conditionals.push_back(node);
    }
  }
  for (tf::Node* node : conditionals) {
    const absl::Status lowered =
        tf::RewriteIfNode(node, graph, /*keep_node_fetchable=*/true);
    if (!lowered.ok()) return lowered;
  }
  return !conditionals.empty();
}

// Returns the output that identities pass on to an input.
tf::OutputTensor SourceOf(const tf::Node& node, int input) {
  const tf::Edge* edge = nullptr;
  if (!node.input_edge(input, &edge).ok()) return {};
  while (edge->src()->IsIdentity() && edge->src()->num_inputs() == 1 &&
         edge->src()->input_edge(0, &edge).ok()) {
  }
  return {edge->src(), edge->src_output()};
}

// Returns the value of the predicate with which the node is executed; nullopt if it
// does not depend on it.
std::optional<int> ValueFor(const tf::OutputTensor& predicate, const tf::Node* node) {
  std::vector<const tf::Node*> open = {node};
  NodeSet seen;
  while (!open.empty()) {
    const tf::Node* const current = open.back();
    open.pop_back();
    if (!seen.insert(current).second || current->IsMerge()) continue;
    for (const tf::Edge* edge : current->in_edges()) {
      const tf::Node* const source = edge->src();
      if (source->IsSwitch() && !edge->IsControlEdge() &&
          SourceOf(*source, 1) == predicate) {
        return edge->src_output();
      }
      open.push_back(source);
    }
  }
  return std::nullopt;
}

// Returns the inputs of a merge by the value of the predicate with which each is
// executed; null unless the merge ends a conditional on the predicate.
std::array<const tf::Edge*, 2> InputsByValue(const tf::OutputTensor& merged,
                                             const tf::OutputTensor& predicate) {
  std::array<const tf::Edge*, 2> inputs = {nullptr, nullptr};
  if (merged.node == nullptr || !merged.node->IsMerge() || merged.index != 0 ||
      merged.node->num_inputs() != 2) {
    return inputs;
  }
  for (int k = 0; k < 2; ++k) {
    const tf::Edge* input = nullptr;
    if (!merged.node->input_edge(k, &input).ok()) continue;
    const std::optional<int> value = ValueFor(predicate, input->src());
    if (value.has_value()) inputs[*value] = input;
  }
  if (inputs[0] == nullptr || inputs[1] == nullptr) inputs.fill(nullptr);
  return inputs;
}

// Gives the branches of a gradient the optional values of the same branch. TensorFlow
// passes values of both branches, which may have different types, in one tensor.
// Returns whether there were any.
absl::StatusOr<bool> BypassMerges(tf::Graph* graph) {
  bool any = false;
  for (tf::Node* node : graph->op_nodes()) {
    if (!node->IsSwitch() || node->output_type(0) != tf::DT_VARIANT) continue;
    const auto inputs = InputsByValue(SourceOf(*node, 0), SourceOf(*node, 1));
    if (inputs[0] == nullptr) continue;
    const std::vector<const tf::Edge*> uses(node->out_edges().begin(),
                                            node->out_edges().end());
    for (const tf::Edge* use : uses) {
      if (use->IsControlEdge()) continue;
      const tf::Edge& value = *inputs[use->src_output()];
      const absl::Status moved = graph->UpdateEdge(value.src(), value.src_output(),
                                                   use->dst(), use->dst_input());
      if (!moved.ok()) return moved;
      any = true;
    }
  }
  return any;
}

// Lowers the conditionals in the graph, and inlines their branches; returns whether
// there were any.
absl::StatusOr<bool> LowerAll(tf::Graph* graph) {
  constexpr int kMostDepth = 100;
  bool any = false;
  for (int depth = 0; depth < kMostDepth; ++depth) {
    TF_ASSIGN_OR_RETURN(const bool lowered, LowerOnce(graph));
    TF_ASSIGN_OR_RETURN(const bool inlined, InlineCalls(graph));
    if (!lowered && !inlined) {
      TF_ASSIGN_OR_RETURN(const bool bypassed, BypassMerges(graph));
      if (!bypassed) break;
    }
    any = true;
  }
  return any;
}

}  // namespace

absl::StatusOr<bool> InlineFunctions(const ProgramGraph& graph, const RunSpec& spec,
                                     ProgramGraph* inlined) {
  const tf::FunctionLibraryDefinition& functions = graph.functions();
  TF_ASSIGN_OR_RETURN(
      const bool calls, NeedsAny(graph, spec, [&](const tf::NodeDef* node) {
        return FunctionOf(tf::AttrSlice(*node), node->op(), functions) != nullptr;
      }));
  return calls ? RewriteRun(graph, spec, InlineCalls, inlined) : false;
}

absl::StatusOr<bool> LowerConditionals(const ProgramGraph& graph, const RunSpec& spec,
                                       ProgramGraph* lowered) {
  TF_ASSIGN_OR_RETURN(const bool any,
                      NeedsAny(graph, spec, [](const tf::NodeDef* node) {
                        return IsLowered(tf::AttrSlice(*node), node->op());
                      }));
  return any ? RewriteRun(graph, spec, LowerAll, lowered) : false;
}

}  // namespace tensorbow
