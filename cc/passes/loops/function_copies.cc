#include "cc/passes/loops/function_copies.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/common_runtime/function_def_utils.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns the number of an argument or a result.
int NumberOf(const tf::Node& node) {
  int index = 0;
  TF_CHECK_OK(tf::GetNodeAttr(node.attrs(), "index", &index));
  return index;
}

}  // namespace

bool IsLoop(absl::string_view op) { return op == "While" || op == "StatelessWhile"; }

absl::StatusOr<const LoopFunction*> FunctionCopies::Find(const tf::Node& loop,
                                                         const char* attribute) {
  tf::NameAttrList name;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(loop.attrs(), attribute, &name));
  LoopFunction& function = found_[name.name()];
  if (function.body != nullptr) return &function;
  function.definition = functions_.Find(name.name());
  if (function.definition == nullptr) {
    return absl::InternalError(absl::StrCat("no function '", name.name(), "'"));
  }
  TF_RETURN_IF_ERROR(tf::FunctionDefToBodyHelper(*function.definition, tf::AttrSlice(),
                                                 &functions_, &function.body));
  tf::GetReversePostOrder(*function.body->graph, &function.order,
                          tf::NodeComparatorName());
  return &function;
}

absl::StatusOr<Tensors> FunctionCopies::Copy(
    const tf::Node& loop, const LoopFunction& function, const Tensors& arguments,
    const std::function<absl::Status(tf::Node*)>& added, SharedConstants* constants) {
  absl::flat_hash_map<const tf::Node*, tf::Node*> copies;
  const auto copy_of = [&](const tf::Edge& edge) -> tf::OutputTensor {
    if (edge.src()->IsArg()) return arguments[NumberOf(*edge.src())];
    return values_.Current({copies.at(edge.src()), edge.src_output()});
  };
  Tensors results(function.body->ret_nodes.size());
  for (const tf::Node* node : function.order) {
    if (!node->IsOp() || node->IsArg()) continue;
    if (node->IsRetval()) {
      const tf::Edge* edge = nullptr;
      TF_RETURN_IF_ERROR(node->input_edge(0, &edge));
      results[NumberOf(*node)] = copy_of(*edge);
      continue;
    }
    if (node->IsConstant() && constants->contains(node)) {
      copies[node] = constants->at(node);
      continue;
    }
    tf::Node* const copy = graph_.CopyNode(node);
    copies[node] = copy;
    if (node->IsConstant()) (*constants)[node] = copy;
    copy->set_name(graph_.NewName(absl::StrCat(loop.name(), "/", node->name())));
    copy->set_assigned_device_name(loop.assigned_device_name());
    for (const tf::Edge* edge : node->in_edges()) {
      if (edge->IsControlEdge()) continue;
      const tf::OutputTensor input = copy_of(*edge);
      graph_.AddEdge(input.node, input.index, copy, edge->dst_input());
    }
    TF_RETURN_IF_ERROR(added(copy));
  }
  return results;
}

absl::Status TakeCurrentInputs(const KnownValues& values, tf::Graph* graph,
                               tf::Node* node) {
  const std::vector<const tf::Edge*> edges(node->in_edges().begin(),
                                           node->in_edges().end());
  for (const tf::Edge* edge : edges) {
    if (edge->IsControlEdge()) continue;
    const tf::OutputTensor old(edge->src(), edge->src_output());
    const tf::OutputTensor now = values.Current(old);
    if (now == old) continue;
    TF_RETURN_IF_ERROR(graph->UpdateEdge(now.node, now.index, node, edge->dst_input()));
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
