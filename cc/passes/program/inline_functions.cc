#include "cc/passes/program/inline_functions.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/common_runtime/function_def_utils.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/common_runtime/inline_function_utils.h"
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
    if (!is_native) {
      options.output_control_src =
          tf::InlineFunctionBodyOptions::OutputControlSource::kControlOutputs;
    }
    // A function marked as not inlinable stays a call.
    inlined |= tf::InlineFunctionBody(functions, graph, call, body.get(), options).ok();
  }
  return inlined;
}

}  // namespace

absl::StatusOr<bool> InlineFunctions(const ProgramGraph& graph, const RunSpec& spec,
                                     ProgramGraph* inlined) {
  std::vector<const tf::NodeDef*> nodes;
  absl::Status status = graph.Needed(spec, &nodes);
  if (!status.ok()) return status;
  const tf::FunctionLibraryDefinition& functions = graph.functions();
  const bool calls = std::any_of(nodes.begin(), nodes.end(), [&](const auto* node) {
    return FunctionOf(tf::AttrSlice(*node), node->op(), functions) != nullptr;
  });
  if (!calls) return false;
  tf::GraphDef closure;
  status = graph.Closure(spec, &closure);
  if (!status.ok()) return status;
  tf::Graph made(functions);
  tf::GraphConstructorOptions options;
  options.allow_internal_ops = true;
  options.expect_device_spec = false;
  const tf::VersionDef versions = closure.versions();
  *closure.mutable_library() = tf::FunctionDefLibrary();  // the graph holds the library
  status = tf::ConvertGraphDefToGraph(options, std::move(closure), &made);
  if (!status.ok()) return status;
  bool any = false;
  constexpr int kMostDepth = 100;  // functions may call themselves
  for (int depth = 0; depth < kMostDepth; ++depth) {
    const absl::StatusOr<bool> once = InlineOnce(made.flib_def(), &made);
    if (!once.ok()) return once.status();
    if (!*once) break;
    any = true;
  }
  if (!any) return false;
  tf::GraphDef definition;
  made.ToGraphDef(&definition);
  *definition.mutable_versions() = versions;
  status = inlined->Extend(definition);
  if (!status.ok()) return status;
  return true;
}

}  // namespace tensorbow
