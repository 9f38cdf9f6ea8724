#include "cc/passes/program/rewrite_run.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/common_runtime/function_def_utils.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/common_runtime/inline_function_utils.h"
#include "tensorflow/core/common_runtime/lower_function_call_inline_policy.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr int kMostDepth = 100;  // of calls: functions may call themselves

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
    TF_RETURN_IF_ERROR(tf::FunctionDefToBodyHelper(
        *function, is_native ? call->attrs() : tf::AttrSlice(), &functions, &body));
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

// Returns the graph of a run.
absl::StatusOr<std::unique_ptr<tf::Graph>> GraphOf(const ProgramGraph& graph,
                                                   const RunSpec& spec,
                                                   tf::VersionDef* versions) {
  tf::GraphDef closure;
  TF_RETURN_IF_ERROR(graph.Closure(spec, &closure));
  auto made = std::make_unique<tf::Graph>(graph.functions());
  tf::GraphConstructorOptions options;
  options.allow_internal_ops = true;
  options.expect_device_spec = false;
  *versions = closure.versions();
  *closure.mutable_library() = tf::FunctionDefLibrary();  // the graph holds the library
  TF_RETURN_IF_ERROR(
      tf::ConvertGraphDefToGraph(options, std::move(closure), made.get()));
  return made;
}

}  // namespace

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

absl::StatusOr<bool> NeedsAny(const ProgramGraph& graph, const RunSpec& spec,
                              const std::function<bool(const tf::NodeDef*)>& fits) {
  std::vector<const tf::NodeDef*> nodes;
  TF_RETURN_IF_ERROR(graph.Needed(spec, &nodes));
  return std::any_of(nodes.begin(), nodes.end(), fits);
}

absl::StatusOr<bool> RewriteRun(
    const ProgramGraph& graph, const RunSpec& spec,
    const std::function<absl::StatusOr<bool>(tf::Graph*)>& rewrite,
    ProgramGraph* rewritten) {
  tf::VersionDef versions;
  TF_ASSIGN_OR_RETURN(const std::unique_ptr<tf::Graph> made,
                      GraphOf(graph, spec, &versions));
  TF_ASSIGN_OR_RETURN(const bool changed, rewrite(made.get()));
  if (!changed) return false;
  tf::GraphDef definition;
  made->ToGraphDef(&definition);
  *definition.mutable_versions() = versions;
  TF_RETURN_IF_ERROR(rewritten->Extend(definition));
  return true;
}

absl::StatusOr<bool> InlineCalls(tf::Graph* graph) {
  bool any = false;
  for (int depth = 0; depth < kMostDepth; ++depth) {
    TF_ASSIGN_OR_RETURN(const bool inlined, InlineOnce(graph->flib_def(), graph));
    if (!inlined) break;
    any = true;
  }
  return any;
}

}  // namespace tensorbow
