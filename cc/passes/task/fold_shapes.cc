#include "cc/passes/task/fold_shapes.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/graph/downstream.h"
#include "cc/graph/shape_functions.h"
#include "tensorflow/core/common_runtime/constant_folding.h"
#include "tensorflow/core/common_runtime/shape_refiner.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/platform/env.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using ShapeMap = std::unordered_map<std::string, std::vector<tf::PartialTensorShape>>;

// The size of the largest constant, in bytes: larger values are computed in each task.
constexpr int64_t kLargestConstant = 4096;

// Sets the shape of a feed, which shape inference does not know.
absl::Status SetFeed(const std::vector<tf::TensorShape>& feeds, const tf::Node& node,
                     tf::ShapeRefiner* refiner) {
  int index = 0;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node.attrs(), "index", &index));
  if (index >= static_cast<int>(feeds.size())) return absl::OkStatus();
  tf::shape_inference::InferenceContext* const context = refiner->GetContext(&node);
  tf::shape_inference::ShapeHandle shape;
  TF_RETURN_IF_ERROR(context->MakeShapeFromTensorShape(feeds[index], &shape));
  return refiner->SetShape(&node, 0, shape);
}

// Returns the shapes of all tensors, as far as they are known.
absl::StatusOr<ShapeMap> InferShapes(const std::vector<tf::TensorShape>& feeds,
                                     const TaskGraph& task, const tf::Graph& graph) {
  const ShapeFunctions ops(graph.op_registry());
  tf::ShapeRefiner refiner(graph.versions(), &ops);
  refiner.set_require_shape_inference_fns(false);
  refiner.set_disable_constant_propagation(false);
  refiner.set_function_library_for_shape_inference(task.functions.get());
  std::vector<tf::Node*> order;
  tf::GetReversePostOrder(graph, &order);
  ShapeMap shapes;
  for (const tf::Node* node : order) {
    if (!node->IsOp()) continue;
    TF_RETURN_IF_ERROR(refiner.AddNode(node));
    if (node->IsArg() && node->output_type(0) != tf::DT_RESOURCE) {
      TF_RETURN_IF_ERROR(SetFeed(feeds, *node, &refiner));
    }
    tf::shape_inference::InferenceContext* const context = refiner.GetContext(node);
    std::vector<tf::PartialTensorShape>& outputs = shapes[node->name()];
    for (int i = 0; i < node->num_outputs(); ++i) {
      tf::TensorShapeProto shape;
      context->ShapeHandleToProto(context->output(i), &shape);
      outputs.emplace_back(shape);
    }
  }
  return shapes;
}

// Has what waits for `node`, whose value nobody needs any more, wait for `constant`,
// which follows the same nodes.
void TakeControl(tf::Node* node, tf::Node* constant, tf::Graph* graph) {
  const std::vector<const tf::Edge*> edges(node->out_edges().begin(),
                                           node->out_edges().end());
  for (const tf::Edge* edge : edges) {
    if (!edge->IsControlEdge()) return;
  }
  for (const tf::Edge* edge : edges) {
    if (edge->dst()->IsSink()) continue;
    graph->AddControlEdge(constant, edge->dst());
    graph->RemoveControlEdge(edge);
  }
}

}  // namespace

absl::StatusOr<bool> FoldShapes(const std::vector<tf::TensorShape>& feeds,
                                TaskGraph* task) {
  tf::Graph* const graph = task->parts[0].graph.get();
  const auto shapes = InferShapes(feeds, *task, *graph);
  // A task whose shapes are wrong fails when it is executed, with a better message.
  if (!shapes.ok()) return false;
  std::unordered_map<std::string, std::string> devices;  // by node
  std::unordered_set<const tf::Node*> ends;              // of the task
  for (const tf::Node* node : graph->op_nodes()) {
    devices[node->name()] = node->assigned_device_name();
    if (IsEnd(*node)) ends.insert(node);
  }
  std::vector<std::pair<std::string, std::string>> made;  // names: new, old
  tf::ConstantFoldingOptions options;
  options.shape_map = &*shapes;
  options.max_constant_size_in_bytes = kLargestConstant;
  options.generate_new_name = [&made](tf::Graph* graph, std::string old) {
    made.emplace_back(graph->NewName(absl::StrCat(old, "/TensorBow.shape")), old);
    return made.back().first;
  };
  bool changed = false;
  TF_RETURN_IF_ERROR(tf::ConstantFold(options, /*function_library=*/nullptr,
                                      tf::Env::Default(), /*partition_device=*/nullptr,
                                      graph, &changed));
  const auto nodes = graph->BuildNodeNameIndex();
  for (const auto& [name, old] : made) {
    const auto constant = nodes.find(name);
    if (constant == nodes.end()) continue;
    constant->second->set_assigned_device_name(devices[old]);
    TakeControl(nodes.at(old), constant->second, graph);
  }
  if (changed) tf::PruneForReverseReachability(graph, std::move(ends));
  return changed;
}

}  // namespace tensorbow
