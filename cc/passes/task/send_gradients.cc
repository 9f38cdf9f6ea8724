#include "cc/passes/task/send_gradients.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "cc/graph/op_facts.h"
#include "cc/passes/task/reduce_gradients.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/node_builder.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns by node the length of the longest chain of nodes before it.
std::vector<int> DepthsOf(const tf::Graph& graph) {
  std::vector<tf::Node*> ordered;
  tf::GetReversePostOrder(graph, &ordered, tf::NodeComparatorName());
  std::vector<int> depths(graph.num_node_ids(), 0);
  for (const tf::Node* node : ordered) {
    if (node->IsNextIteration()) continue;  // a loop's back edge
    for (const tf::Edge* edge : node->out_edges()) {
      int& depth = depths[edge->dst()->id()];
      depth = std::max(depth, depths[node->id()] + 1);
    }
  }
  return depths;
}

// Returns the reductions in the order in which their gradients are computed.
std::vector<tf::Node*> InOrder(const tf::Graph& graph) {
  const std::vector<int> depths = DepthsOf(graph);
  std::vector<std::tuple<int, std::string, tf::Node*>> found;
  for (tf::Node* node : graph.op_nodes()) {
    if (node->type_string() != kReduceGradient) continue;
    const tf::Edge* gradient = nullptr;
    if (!node->input_edge(0, &gradient).ok()) continue;
    found.emplace_back(depths[gradient->src()->id()], node->name(), node);
  }
  std::sort(found.begin(), found.end());
  std::vector<tf::Node*> reductions;
  for (const auto& [depth, name, node] : found) reductions.push_back(node);
  return reductions;
}

absl::StatusOr<SentGradient> GradientOf(const tf::Node& reduction) {
  tf::PartialTensorShape shape;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(reduction.attrs(), "shape", &shape));
  if (!shape.IsFullyDefined()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "S-SGD on several hosts has to know the sizes of gradients, and that of '",
        ProgramsName(reduction.name()), "' has the shape ", shape.DebugString(),
        ". Use tensorbow.SMA()"));
  }
  return SentGradient{reduction.output_type(0), shape.num_elements()};
}

}  // namespace

absl::StatusOr<std::vector<SentGradient>> SendGradients(TaskGraph* task,
                                                        int* num_gradients) {
  tf::Graph* const graph = task->parts[0].graph.get();
  tf::Node* begin = nullptr;
  for (tf::Node* node : graph->op_nodes()) {
    if (node->type_string() == kBeginUpdates) begin = node;
    if (node->type_string() == kReduceRows) {
      return absl::InvalidArgumentError(
          absl::StrCat("S-SGD on several hosts averages dense gradients, and '",
                       ProgramsName(node->name()),
                       "' is one of some rows of a variable. Use tensorbow.SMA()"));
    }
  }
  std::vector<SentGradient> sent;
  tf::Node* last = nullptr;
  for (tf::Node* reduction : InOrder(*graph)) {
    TF_ASSIGN_OR_RETURN(const SentGradient gradient, GradientOf(*reduction));
    const auto index = static_cast<int64_t>(sent.size());
    sent.push_back(gradient);
    reduction->ClearAttr("index");
    reduction->AddAttr("index", index);
    reduction->ClearAttr("sent");
    reduction->AddAttr("sent", true);
    const tf::Edge* source = nullptr;
    TF_RETURN_IF_ERROR(reduction->input_edge(0, &source));
    tf::Node* send = nullptr;
    TF_RETURN_IF_ERROR(tf::NodeBuilder(absl::StrCat(reduction->name(), "/send"),
                                       "TensorBowSendGradient", graph->op_registry())
                           .Input(source->src(), source->src_output())
                           .Attr("index", index)
                           .AssignedDevice(reduction->assigned_device_name())
                           .Finalize(graph, &send));
    if (last != nullptr) graph->AddControlEdge(last, send);
    graph->AddControlEdge(send, begin);
    last = send;
  }
  begin->ClearAttr("votes");
  begin->AddAttr("votes", true);
  if (begin->num_inputs() == 0) {  // learners do not wait there otherwise
    begin->ClearAttr("index");
    begin->AddAttr("index", static_cast<int64_t>((*num_gradients)++));
  }
  return sent;
}

}  // namespace tensorbow
