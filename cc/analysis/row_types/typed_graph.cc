#include "cc/analysis/row_types/typed_graph.h"

#include <algorithm>

#include "cc/analysis/row_types/rule.h"
#include "cc/graph/shape_functions.h"
#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/common_runtime/function_def_utils.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/graph/algorithm.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

tf::PartialTensorShape ShapeOf(tf::shape_inference::InferenceContext* context,
                               int output) {
  const tf::shape_inference::ShapeHandle handle = context->output(output);
  if (!context->RankKnown(handle)) return tf::PartialTensorShape();
  std::vector<int64_t> sizes;
  for (int d = 0; d < context->Rank(handle); ++d) {
    sizes.push_back(context->Value(context->Dim(handle, d)));
  }
  return tf::PartialTensorShape(sizes);
}

// Infers static shapes, inputs first; `arguments`: those of a function. A node whose
// inference fails has no shape.
absl::Status InferShapes(const tf::Graph& graph,
                         const std::vector<tf::PartialTensorShape>& arguments,
                         tf::ShapeRefiner* refiner) {
  refiner->set_require_shape_inference_fns(false);
  std::vector<tf::Node*> order;
  tf::GetReversePostOrder(graph, &order);
  for (tf::Node* node : order) {
    if (!refiner->AddNode(node).ok() || !node->IsArg()) continue;
    int index = 0;
    TF_RETURN_IF_ERROR(tf::GetNodeAttr(node->attrs(), "index", &index));
    tf::shape_inference::InferenceContext* const context = refiner->GetContext(node);
    tf::shape_inference::ShapeHandle shape;
    if (index < static_cast<int>(arguments.size()) && context != nullptr &&
        context->MakeShapeFromPartialTensorShape(arguments[index], &shape).ok()) {
      context->set_output(0, shape);
    }
  }
  return absl::OkStatus();
}

}  // namespace

void TypedGraph::Index(const tf::ShapeRefiner& refiner) {
  conditional = Conditional(*graph);
  const int count = graph->num_node_ids();
  inputs.resize(count);
  consumers.resize(count);
  shapes.resize(count);
  for (const tf::Node* node : graph->nodes()) {
    inputs[node->id()].resize(node->num_inputs());
    for (const tf::Edge* edge : node->in_edges()) {
      if (edge->IsControlEdge()) continue;
      inputs[node->id()][edge->dst_input()] = {edge->src(), edge->src_output()};
      consumers[edge->src()->id()].push_back(node);
    }
    shapes[node->id()].resize(node->num_outputs());
    tf::shape_inference::InferenceContext* const context = refiner.GetContext(node);
    for (int k = 0; context != nullptr && k < node->num_outputs(); ++k) {
      if (k < context->num_outputs()) shapes[node->id()][k] = ShapeOf(context, k);
    }
  }
}

const tf::Node* TypedGraph::Find(absl::string_view name) const {
  for (const tf::Node* node : graph->nodes()) {
    if (node->name() == name) return node;
  }
  return nullptr;
}

absl::StatusOr<std::unique_ptr<TypedGraph>> TypedGraph::Of(
    const ProgramGraph& program, const RunSpec& spec,
    const absl::flat_hash_map<std::string, int>& ranks) {
  tf::GraphDef closure;
  TF_RETURN_IF_ERROR(program.Closure(spec, &closure));
  for (tf::NodeDef& node : *closure.mutable_node()) {
    const auto rank = ranks.find(node.name());
    if (rank == ranks.end() || node.op() != "Placeholder") continue;
    auto* const shape = (*node.mutable_attr())["shape"].mutable_shape();
    shape->set_unknown_rank(false);
    for (int d = shape->dim_size(); d < rank->second; ++d) {
      shape->add_dim()->set_size(-1);
    }
  }
  auto made = std::make_unique<TypedGraph>();
  made->graph = std::make_unique<tf::Graph>(tf::OpRegistry::Global());
  const ShapeFunctions ops(made->graph->op_registry());
  const int producer = closure.versions().producer();
  tf::ShapeRefiner importing(producer, &ops), refiner(producer, &ops);
  tf::ImportGraphDefOptions options;
  options.validate_colocation_constraints = false;
  options.validate_shape = false;
  TF_RETURN_IF_ERROR(
      tf::ImportGraphDef(options, closure, made->graph.get(), &importing));
  TF_RETURN_IF_ERROR(InferShapes(*made->graph, {}, &refiner));
  made->Index(refiner);
  return made;
}

absl::StatusOr<std::unique_ptr<TypedGraph>> TypedGraph::OfFunction(
    const tf::FunctionLibraryDefinition& functions, const std::string& name,
    const std::vector<tf::PartialTensorShape>& arguments, int version) {
  const tf::FunctionDef* const definition = functions.Find(name);
  if (definition == nullptr) return absl::NotFoundError(name);
  std::unique_ptr<tf::FunctionBody> body;
  TF_RETURN_IF_ERROR(
      tf::FunctionDefToBodyHelper(*definition, tf::AttrSlice(), &functions, &body));
  auto made = std::make_unique<TypedGraph>();
  made->arguments.assign(body->arg_nodes.begin(), body->arg_nodes.end());
  made->results.assign(body->ret_nodes.begin(), body->ret_nodes.end());
  made->effects.assign(body->control_ret_nodes.begin(), body->control_ret_nodes.end());
  for (const tf::Node* node : body->graph->op_nodes()) {
    if (IsWrite(node->type_string())) made->effects.push_back(node);
  }
  const ShapeFunctions ops(body->graph->op_registry());
  tf::ShapeRefiner refiner(version, &ops);
  refiner.set_function_library_for_shape_inference(&functions);
  TF_RETURN_IF_ERROR(InferShapes(*body->graph, arguments, &refiner));
  // The graph refers to function definitions, which the program owns.
  made->graph.reset(body->graph);
  body->graph = nullptr;
  made->Index(refiner);
  return made;
}

std::vector<const tf::Node*> OrderOf(const TypedGraph& graph,
                                     const std::vector<bool>& given,
                                     const std::vector<const tf::Node*>& ends) {
  std::vector<bool> needed(graph.graph->num_node_ids());
  std::vector<const tf::Node*> open = ends, found;
  while (!open.empty()) {
    const tf::Node* const node = open.back();
    open.pop_back();
    if (!node->IsOp() || needed[node->id()]) continue;
    needed[node->id()] = true;
    found.push_back(node);
    if (given[node->id()]) continue;
    for (const tf::Edge* edge : node->in_edges()) open.push_back(edge->src());
  }
  std::sort(found.begin(), found.end(),
            [](const tf::Node* a, const tf::Node* b) { return a->id() < b->id(); });
  std::vector<const tf::Node*> order;
  std::vector<bool> seen(needed.size());
  for (const tf::Node* first : found) {
    std::vector<std::pair<const tf::Node*, size_t>> stack;
    if (!seen[first->id()]) stack.push_back({first, 0});
    seen[first->id()] = true;
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      const auto& inputs = graph.inputs[node->id()];
      const bool done =
          next == inputs.size() || node->IsNextIteration() || given[node->id()];
      if (done) {
        order.push_back(node);
        stack.pop_back();
        continue;
      }
      const tf::Node* const input = inputs[next++].node;
      if (input == nullptr || seen[input->id()] || !needed[input->id()]) continue;
      seen[input->id()] = true;
      stack.push_back({input, 0});
    }
  }
  return order;
}

}  // namespace tensorbow
