#include "cc/passes/task/fuse_sparse_products.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/node_inputs.h"
#include "cc/graph/op_facts.h"
#include "cc/graph/updates.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// A smaller gradient stays in a core's second-level cache, and a batch has entries in
// most of its rows.
constexpr int64_t kMinSparseElements = 32 * 1024;

bool IsLarge(const tf::Node& variable) {
  tf::PartialTensorShape shape;
  return FactsOf(variable.type_string()).creates_variable &&
         tf::GetNodeAttr(variable.attrs(), "shape", &shape).ok() && shape.dims() == 2 &&
         shape.num_elements() >= kMinSparseElements;
}

// Returns whether the node is a product with a sparse matrix that our kernels support.
bool IsSparseProduct(const tf::Node& node) {
  tf::DataType type = tf::DT_INVALID, index_type = tf::DT_INVALID;
  bool adjoint_b = true;
  return IsOp(&node, {"SparseTensorDenseMatMul"}) &&
         tf::TryGetNodeAttr(node.attrs(), "T", &type) && type == tf::DT_FLOAT &&
         tf::TryGetNodeAttr(node.attrs(), "Tindices", &index_type) &&
         index_type == tf::DT_INT64 &&
         tf::TryGetNodeAttr(node.attrs(), "adjoint_b", &adjoint_b) && !adjoint_b;
}

// Returns whether the node is xᵀ·dy with a sparse x.
bool IsTransposedSparseProduct(const tf::Node& node) {
  bool adjoint_a = false;
  return IsSparseProduct(node) &&
         tf::TryGetNodeAttr(node.attrs(), "adjoint_a", &adjoint_a) && adjoint_a;
}

// Returns the product that is the gradient of this update alone, or null.
tf::Node* ProductOf(const tf::Node& update, int gradient) {
  const tf::Node* user = &update;
  tf::Node* node = InputOf(update, gradient).node;
  while (node != nullptr && IsOnlyFor(*node, user)) {
    if (IsTransposedSparseProduct(*node)) return node;
    if (!node->IsIdentity()) return nullptr;
    user = node;
    node = InputOf(*node, 0).node;
  }
  return nullptr;
}

// Returns the new update without its rows; without an op if there is none.
tf::NodeDef Definition(const tf::Node& update, OwnUpdates own) {
  tf::NodeDef definition = update.def();
  if (absl::StartsWith(update.type_string(), "TensorBow")) {
    int64_t factors = 0, rows = 0;
    const bool takes_rows =
        tf::TryGetNodeAttr(update.attrs(), "num_factors", &factors) && factors == 0 &&
        tf::TryGetNodeAttr(update.attrs(), "num_rows", &rows) && rows == 0;
    return takes_rows ? definition : tf::NodeDef();
  }
  const bool approximates = IsOp(&update, {"ApplyAdagrad", "ResourceApplyAdagrad"});
  if (own == OwnUpdates::kKeep ||
      (own == OwnUpdates::kFuseWithSameBits && approximates)) {
    return {};
  }
  definition.set_op(absl::StrCat("TensorBow", update.type_string()));
  const tf::OpDef* op = nullptr;
  if (!tf::OpRegistry::Global()->LookUpOpDef(definition.op(), &op).ok()) return {};
  (*definition.mutable_attr())["member"].set_i(-1);
  return definition;
}

// Replaces the update with a dense gradient by the one with rows.
absl::Status Fuse(tf::Node* update, tf::Node* product, tf::NodeDef definition,
                  tf::Graph* graph) {
  tf::NodeDef rows = product->def();
  rows.set_op("TensorBowSparseProduct");
  rows.clear_attr();
  TF_ASSIGN_OR_RETURN(product, ReplaceNode(product, std::move(rows), graph));
  const int before = update->num_inputs();
  auto& inputs = *definition.mutable_input();
  for (int output : {1, 2}) {
    inputs.Add(absl::StrCat(product->name(), ":", output));
  }
  std::rotate(inputs.begin() + before, inputs.end() - 2, inputs.end());  // then control
  (*definition.mutable_attr())["num_rows"].set_i(2);
  TF_ASSIGN_OR_RETURN(update, ReplaceNode(update, std::move(definition), graph));
  for (int output : {1, 2}) {
    graph->AddEdge(product, output, update, before + output - 1);
  }
  return absl::OkStatus();
}

absl::Status FuseSparseProductsOf(OwnUpdates own, tf::Graph* graph) {
  std::vector<std::pair<tf::Node*, tf::Node*>> found;
  for (tf::Node* node : graph->op_nodes()) {
    const int gradient = GradientInput(*node);
    if (gradient < 0) continue;
    const tf::Node* const variable = InputOf(*node, 0).node;
    if (variable == nullptr || !IsLarge(*variable)) continue;
    tf::Node* const product = ProductOf(*node, gradient);
    if (product == nullptr || Definition(*node, own).op().empty()) continue;
    found.emplace_back(node, product);
  }
  for (const auto& [update, product] : found) {
    TF_RETURN_IF_ERROR(Fuse(update, product, Definition(*update, own), graph));
  }
  std::vector<tf::Node*> others;
  for (tf::Node* node : graph->op_nodes()) {
    if (IsSparseProduct(*node)) others.push_back(node);
  }
  for (tf::Node* node : others) {
    tf::NodeDef definition = node->def();
    definition.set_op("TensorBowSparseTensorDenseMatMul");
    TF_RETURN_IF_ERROR(ReplaceNode(node, std::move(definition), graph).status());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FuseSparseProducts(OwnUpdates own, TaskGraph* task) {
  for (TaskPart& part : task->parts) {
    if (part.device->device_type() != tf::DEVICE_CPU) continue;
    TF_RETURN_IF_ERROR(FuseSparseProductsOf(own, part.graph.get()));
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
