#include "cc/passes/program/inline_functions.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/graph/downstream.h"
#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/common_runtime/function_def_utils.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/common_runtime/inline_function_utils.h"
#include "tensorflow/core/common_runtime/lower_function_call_inline_policy.h"
#include "tensorflow/core/common_runtime/lower_if_op.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns the function that a node calls; null if it calls none.
const tf::FunctionDef* FunctionOf(const tf::AttrSlice& attributes,
                                  const std::string& op,
                                  const tf::FunctionLibraryDefinition& functions) {
  if (op != "PartitionedCall" && op != "StatefulPartitionedCall") {
    return functions.Find(op);
  }
  tf::NameAttrList function;
  if (!tf::GetNodeAttr(attributes, "f", &function).ok()) return nullptr;
  return functions.Find(function.name());
}

// Returns whether TensorFlow replaces the conditional by switches and merges.
bool IsLowered(const tf::AttrSlice& attributes, absl::string_view op) {
  bool lowers = false;
  return (op == "If" || op == "StatelessIf") &&
         tf::TryGetNodeAttr(attributes,
                            tf::LowerFunctionalOpsConstants::kLowerUsingSwitchMergeAttr,
                            &lowers) &&
         lowers;
}

// Returns whether the call is the branch of a conditional that has been lowered.
bool IsOfConditional(const tf::Node& call) {
  bool branch = false;
  return tf::TryGetNodeAttr(
             call.attrs(),
             tf::LowerFunctionalOpsConstants::kLowerAsMultiDeviceFunctionAttr,
             &branch) &&
         branch;
}

// Inlines the calls in the graph once; returns whether there were any.
absl::StatusOr<bool> InlineOnce(const tf::FunctionLibraryDefinition& functions,
                                tf::Graph* graph) {
  std::vector<tf::Node*> calls;
  for (tf::Node* node : graph->op_nodes()) {
    if (FunctionOf(node->attrs(), node->type_string(), functions) != nullptr) {
      calls.push_back(node);
    }
  }
  bool inlined = false;
  for (tf::Node* call : calls) {
    const tf::FunctionDef* const function =
        FunctionOf(call->attrs(), call->type_string(), functions);
    const bool is_native = functions.Find(call->type_string()) != nullptr;
    std::unique_ptr<tf::FunctionBody> body;
    const absl::Status made = tf::FunctionDefToBodyHelper(
        *function, is_native ? call->attrs() : tf::AttrSlice(), &functions, &body);
    if (!made.ok()) return made;
    tf::InlineFunctionBodyOptions options;
    options.keep_caller_node =
        tf::InlineFunctionBodyOptions::KeepCallerNode::kFetchable;
    if (!is_native || IsOfConditional(*call)) {
      options.output_control_src =
          tf::InlineFunctionBodyOptions::OutputControlSource::kControlOutputs;
    }
    // A function marked as not inlinable stays a call.
    inlined |= tf::InlineFunctionBody(functions, graph, call, body.get(), options).ok();
  }
  return inlined;
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

// Returns the graph of a run.
absl::StatusOr<std::unique_ptr<tf::Graph>> GraphOf(const ProgramGraph& graph,
                                                   const RunSpec& spec,
                                                   tf::VersionDef* versions) {
  tf::GraphDef closure;
  absl::Status status = graph.Closure(spec, &closure);
  if (!status.ok()) return status;
  auto made = std::make_unique<tf::Graph>(graph.functions());
  tf::GraphConstructorOptions options;
  options.allow_internal_ops = true;
  options.expect_device_spec = false;
  *versions = closure.versions();
  *closure.mutable_library() = tf::FunctionDefLibrary();  // the graph holds the library
  status = tf::ConvertGraphDefToGraph(options, std::move(closure), made.get());
  if (!status.ok()) return status;
  return made;
}

// Rewrites what `spec` needs with `once` until it changes nothing; returns whether it
// has changed anything.
template <typename Once>
absl::StatusOr<bool> RewriteWith(const ProgramGraph& graph, const RunSpec& spec,
                                 Once once, ProgramGraph* rewritten) {
  tf::VersionDef versions;
  absl::StatusOr<std::unique_ptr<tf::Graph>> made = GraphOf(graph, spec, &versions);
  if (!made.ok()) return made.status();
  bool any = false;
  constexpr int kMostDepth = 100;  // functions may call themselves
  for (int depth = 0; depth < kMostDepth; ++depth) {
    const absl::StatusOr<bool> changed = once(made->get());
    if (!changed.ok()) return changed.status();
    if (!*changed) break;
    any = true;
  }
  if (!any) return false;
  tf::GraphDef definition;
  (*made)->ToGraphDef(&definition);
  *definition.mutable_versions() = versions;
  const absl::Status status = rewritten->Extend(definition);
  if (!status.ok()) return status;
  return true;
}

// Returns whether `spec` needs a node that `fits`.
template <typename Fits>
absl::StatusOr<bool> NeedsAny(const ProgramGraph& graph, const RunSpec& spec,
                              Fits fits) {
  std::vector<const tf::NodeDef*> nodes;
  const absl::Status status = graph.Needed(spec, &nodes);
  if (!status.ok()) return status;
  return std::any_of(nodes.begin(), nodes.end(), fits);
}

}  // namespace

absl::StatusOr<bool> InlineFunctions(const ProgramGraph& graph, const RunSpec& spec,
                                     ProgramGraph* inlined) {
  const tf::FunctionLibraryDefinition& functions = graph.functions();
  const auto calls = NeedsAny(graph, spec, [&](const tf::NodeDef* node) {
    return FunctionOf(tf::AttrSlice(*node), node->op(), functions) != nullptr;
  });
  if (!calls.ok() || !*calls) return calls;
  return RewriteWith(
      graph, spec, [](tf::Graph* made) { return InlineOnce(made->flib_def(), made); },
      inlined);
}

absl::StatusOr<bool> LowerConditionals(const ProgramGraph& graph, const RunSpec& spec,
                                       ProgramGraph* lowered) {
  const auto any = NeedsAny(graph, spec, [](const tf::NodeDef* node) {
    return IsLowered(tf::AttrSlice(*node), node->op());
  });
  if (!any.ok() || !*any) return any;
  return RewriteWith(
      graph, spec,
      [](tf::Graph* made) -> absl::StatusOr<bool> {
        const absl::StatusOr<bool> some = LowerOnce(made);
        if (!some.ok()) return some;
        const absl::StatusOr<bool> inlined = InlineOnce(made->flib_def(), made);
        if (!inlined.ok()) return inlined;
        if (*some || *inlined) return true;
        return BypassMerges(made);
      },
      lowered);
}

}  // namespace tensorbow
