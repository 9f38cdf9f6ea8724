#include "cc/passes/task/fuse_products.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/central_model/central_model.h"
#include "cc/graph/op_facts.h"
#include "cc/graph/updates.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// A smaller gradient stays in a core's second-level cache anyway.
constexpr int64_t kMinDenseElements = 128 * 1024;
// The width of the vectors pays off only for this number of columns.
constexpr int64_t kMinColumns = 64;
// The limit for rows of the product, some of which exist at a time, to fit into a
// core's second-level cache.
constexpr int64_t kMaxColumns = CentralModel::kSliceElements;
// The limit for the gradient of the inputs, which is computed from the rows of the
// weights in a slice: more columns leave too few rows.
constexpr int64_t kMaxColumnsOfInputGradient = kMaxColumns / 8;

bool IsLarge(const tf::PartialTensorShape& shape, int64_t max_columns) {
  return shape.dims() == 2 && shape.num_elements() >= kMinDenseElements &&
         shape.dim_size(1) >= kMinColumns && shape.dim_size(1) <= max_columns;
}

bool IsLargeMatrix(const tf::Node& variable, int64_t max_columns) {
  tf::PartialTensorShape shape;
  return tf::GetNodeAttr(variable.attrs(), "shape", &shape).ok() &&
         IsLarge(shape, max_columns);
}

bool IsFloatProduct(const tf::Node& node) {
  const std::string& op = node.type_string();
  tf::DataType type;
  return (op == "MatMul" || op == "_MklMatMul") &&
         tf::TryGetNodeAttr(node.attrs(), "T", &type) && type == tf::DT_FLOAT;
}

// Returns whether the node is a product whose right factor is not transposed.
bool IsProduct(const tf::Node& node) {
  bool transposed = true;
  return IsFloatProduct(node) &&
         tf::TryGetNodeAttr(node.attrs(), "transpose_b", &transposed) && !transposed;
}

// Returns whether the tensor may lie in a variable's memory, so that it must be used
// before the variable is updated.
bool MayBeVariable(const tf::Node* node) {
  while (node->IsIdentity() || node->type_string() == "Reshape" ||
         node->type_string() == "Squeeze" || node->type_string() == "ExpandDims") {
    const tf::Node* input = nullptr;
    if (!node->input_node(0, &input).ok()) return true;
    node = input;
  }
  return FactsOf(node->type_string()).creates_variable ||
         node->type_string() == "ReadVariableOp" || node->IsControlFlow() ||
         node->num_outputs() == 0 || tf::IsRefType(node->output_type(0));
}

int UsersOf(const tf::Node& node) {
  int users = 0;
  for (const tf::Edge* edge : node.out_edges()) users += !edge->IsControlEdge();
  return users;
}

// Returns the input of a fused update that could be a product, or -1.
int OperandInput(const tf::Node& update) {
  const auto& arguments = update.op_def().input_arg();
  for (int i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == "value") return i;
  }
  return GradientInput(update);
}

// Returns the nodes between an update and its factors: first the product, then
// identities.
std::vector<tf::Node*> PathToProduct(const tf::Node& update) {
  std::vector<tf::Node*> path;
  tf::Node* node = nullptr;
  const int operand = OperandInput(update);
  if (operand < 0 || !update.input_node(operand, &node).ok()) return {};
  while (UsersOf(*node) == 1) {
    path.insert(path.begin(), node);
    if (IsProduct(*node)) return path;
    if (!node->IsIdentity() || !node->input_node(0, &node).ok()) break;
  }
  return {};
}

// Removes a node without users. Nodes that waited for it now wait for its inputs, and
// `user` for the nodes that it waited for.
void Dissolve(tf::Node* node, tf::Node* user, tf::Graph* graph) {
  std::vector<tf::Node*> inputs, before, after;
  for (const tf::Edge* edge : node->in_edges()) {
    inputs.push_back(edge->src());
    if (edge->IsControlEdge()) before.push_back(edge->src());
  }
  for (const tf::Edge* edge : node->out_edges()) {
    if (edge->dst()->IsOp()) after.push_back(edge->dst());
  }
  graph->RemoveNode(node);
  for (tf::Node* input : inputs) {
    for (tf::Node* later : after) graph->AddControlEdge(input, later);
  }
  for (tf::Node* earlier : before) graph->AddControlEdge(earlier, user);
}

std::string TensorOf(const tf::Edge& edge) {
  return absl::StrCat(edge.src()->name(), ":", edge.src_output());
}

// Returns whether `node` is a float32 product of tensor `output` of `left` with the
// transposed value of `variable`.
bool MultipliesWithTransposed(const tf::Node& node, const tf::Node& left, int output,
                              const tf::Node& variable) {
  bool transpose_a = true, transpose_b = false;
  if (!IsFloatProduct(node) ||
      !tf::TryGetNodeAttr(node.attrs(), "transpose_a", &transpose_a) || transpose_a ||
      !tf::TryGetNodeAttr(node.attrs(), "transpose_b", &transpose_b) || !transpose_b) {
    return false;
  }
  const tf::Edge *a = nullptr, *b = nullptr;
  if (!node.input_edge(0, &a).ok() || !node.input_edge(1, &b).ok()) return false;
  if (a->src() != &left || a->src_output() != output) return false;
  const tf::Node* value = b->src();
  if (value->type_string() == "ReadVariableOp" || value->IsIdentity()) {
    if (!value->input_node(0, &value).ok()) return false;
  }
  return value == &variable;
}

// Returns whether `to` can be reached from `from`, not counting a direct edge.
bool IsBefore(const tf::Node& from, const tf::Node& to) {
  std::vector<const tf::Node*> ahead;
  std::set<const tf::Node*> seen;
  const auto go = [&](const tf::Node* node) {
    if (seen.insert(node).second) ahead.push_back(node);
  };
  for (const tf::Node* next : from.out_nodes()) {
    if (next != &to) go(next);
  }
  while (!ahead.empty()) {
    const tf::Node* const node = ahead.back();
    ahead.pop_back();
    if (node == &to) return true;
    for (const tf::Node* next : node->out_nodes()) go(next);
  }
  return false;
}

// Returns the product that the update with factor `b` can also compute, or null. The
// update and the product must not depend on each other.
tf::Node* InputGradient(const tf::Node& update, const tf::Edge& b,
                        const tf::Node& variable) {
  for (const tf::Edge* edge : b.src()->out_edges()) {
    tf::Node* const node = edge->dst();
    if (node->IsOp() &&
        MultipliesWithTransposed(*node, *b.src(), b.src_output(), variable) &&
        !IsBefore(*node, update) && !IsBefore(update, *node)) {
      return node;
    }
  }
  return nullptr;
}

// Makes `update`, whose factor is `b`, return the gradient of the inputs if it can.
absl::Status FuseInputGradient(tf::Node* update, tf::Graph* graph) {
  const tf::Node* variable = nullptr;
  const tf::Edge* b = nullptr;
  TF_RETURN_IF_ERROR(update->input_node(0, &variable));
  TF_RETURN_IF_ERROR(update->input_edge(update->num_inputs() - 1, &b));
  if (!IsLargeMatrix(*variable, kMaxColumnsOfInputGradient)) return absl::OkStatus();
  tf::Node* const product = InputGradient(*update, *b, *variable);
  if (product == nullptr) return absl::OkStatus();

  tf::NodeDef definition = update->def();
  (*definition.mutable_attr())["num_input_gradients"].set_i(1);
  TF_ASSIGN_OR_RETURN(tf::Node * fused,
                      ReplaceNode(update, std::move(definition), graph));
  std::vector<const tf::Edge*> before, after;
  for (const tf::Edge* edge : product->in_edges()) {
    if (edge->IsControlEdge()) before.push_back(edge);
  }
  for (const tf::Edge* edge : product->out_edges()) {
    if (edge->dst()->IsOp() && edge->dst() != fused) after.push_back(edge);
  }
  for (const tf::Edge* edge : before) graph->AddControlEdge(edge->src(), fused);
  for (const tf::Edge* edge : after) {
    if (edge->IsControlEdge()) {
      graph->AddControlEdge(fused, edge->dst());
      continue;
    }
    tf::Node* const user = edge->dst();
    const int input = edge->dst_input();
    TF_RETURN_IF_ERROR(graph->UpdateEdge(fused, fused->num_outputs() - 1, user, input));
  }
  graph->RemoveNode(product);
  return absl::OkStatus();
}

absl::Status Fuse(tf::Node* update, const std::vector<tf::Node*>& path,
                  bool with_input_gradient, tf::Graph* graph) {
  const tf::Node& product = *path.front();
  const tf::Edge *a = nullptr, *b = nullptr, *gradient = nullptr;
  TF_RETURN_IF_ERROR(product.input_edge(0, &a));
  TF_RETURN_IF_ERROR(product.input_edge(1, &b));
  bool transposed = false;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(product.attrs(), "transpose_a", &transposed));

  const int operand = OperandInput(*update), factor = update->num_inputs();
  tf::NodeDef definition = update->def();
  auto& attributes = *definition.mutable_attr();
  attributes["num_factors"].set_i(1);
  attributes["transpose"].set_b(transposed);
  auto& inputs = *definition.mutable_input();
  inputs[operand] = TensorOf(*a);
  inputs.Add(TensorOf(*b));  // data precedes control
  std::rotate(inputs.begin() + factor, inputs.end() - 1, inputs.end());

  TF_ASSIGN_OR_RETURN(tf::Node * fused,
                      ReplaceNode(update, std::move(definition), graph));
  TF_RETURN_IF_ERROR(fused->input_edge(operand, &gradient));
  graph->RemoveEdge(gradient);
  graph->AddEdge(a->src(), a->src_output(), fused, operand);
  graph->AddEdge(b->src(), b->src_output(), fused, factor);
  for (tf::Node* node : path) Dissolve(node, fused, graph);
  return with_input_gradient ? FuseInputGradient(fused, graph) : absl::OkStatus();
}

absl::Status FuseProductsOf(bool with_input_gradients, tf::Graph* graph) {
  std::vector<std::pair<tf::Node*, std::vector<tf::Node*>>> found;
  // Products and updates may be executed independently if there are branches.
  bool branches = false;
  for (tf::Node* node : graph->op_nodes()) {
    branches |= node->IsControlFlow();
    int64_t factors = 0;
    if (!absl::StartsWith(node->type_string(), "TensorBow") ||
        !tf::TryGetNodeAttr(node->attrs(), "num_factors", &factors) || factors > 0) {
      continue;
    }
    const tf::Node* variable = nullptr;
    TF_RETURN_IF_ERROR(node->input_node(0, &variable));
    if (!IsLargeMatrix(*variable, kMaxColumns)) continue;
    std::vector<tf::Node*> path = PathToProduct(*node);
    if (path.empty()) continue;
    const tf::Node *a = nullptr, *b = nullptr;
    TF_RETURN_IF_ERROR(path.front()->input_node(0, &a));
    TF_RETURN_IF_ERROR(path.front()->input_node(1, &b));
    if (MayBeVariable(a) || MayBeVariable(b)) continue;
    found.emplace_back(node, std::move(path));
  }
  for (const auto& [update, path] : found) {
    TF_RETURN_IF_ERROR(Fuse(update, path, with_input_gradients && !branches, graph));
  }
  return absl::OkStatus();
}

}  // namespace

bool CanFuseProduct(const tf::PartialTensorShape& shape) {
  return IsLarge(shape, kMaxColumns);
}

absl::Status FuseProducts(bool with_input_gradients, TaskGraph* task) {
  for (TaskPart& part : task->parts) {
    if (part.device->device_type() != tf::DEVICE_CPU) continue;
    TF_RETURN_IF_ERROR(FuseProductsOf(with_input_gradients, part.graph.get()));
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
