#include "cc/graph/sparse_gradient.h"

#include "cc/graph/op_facts.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns whether the tensor is known to be a scalar.
bool IsScalar(const tf::Node* node) {
  if (node == nullptr) return false;
  if (node->IsConstant()) {
    return node->def().attr().at("value").tensor().tensor_shape().dim_size() == 0;
  }
  if (FactsOf(node->type_string()).creates_variable) {
    tf::PartialTensorShape shape;
    return tf::GetNodeAttr(node->attrs(), "shape", &shape).ok() && shape.dims() == 0;
  }
  if (!IsOp(node, {"Identity", "ReadVariableOp", "Cast", "Sub"})) return false;
  for (int i = 0; i < node->num_inputs(); ++i) {
    if (!IsScalar(InputOf(*node, i).node)) return false;
  }
  return true;
}

// Returns whether `node` is a product of `values` and scalars, taken by `user` alone.
// Adds the inputs at which it takes values.
bool IsProductOf(const NodeOutput& values, tf::Node* node, const tf::Node* user,
                 std::vector<SparseGradient::Use>* uses) {
  if (!IsOp(node, {"Mul", "Square"}) || !IsOnlyFor(*node, user)) return false;
  for (int i = 0; i < node->num_inputs(); ++i) {
    const NodeOutput input = InputOf(*node, i);
    if (input == values) {
      uses->push_back({node, i});
    } else if (!IsScalar(input.node) && !IsProductOf(values, input.node, node, uses)) {
      return false;
    }
  }
  return true;
}

int ArgumentOf(const tf::Node& update, const char* name) {
  const auto& arguments = update.op_def().input_arg();
  for (int i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == name) return i;
  }
  return -1;
}

// Finds the gradient in fused Adam, whose moments m' and v' are products of it.
std::optional<SparseGradient> OfFusedAdam(tf::Node* update) {
  const int indices = ArgumentOf(*update, "indices");
  tf::Node* const m = InputOf(*update, ArgumentOf(*update, "m_updates")).node;
  tf::Node* const v = InputOf(*update, ArgumentOf(*update, "v_updates")).node;
  if (!IsOp(m, {"Mul"}) || v == nullptr) return std::nullopt;
  for (int i = 0; i < 2; ++i) {
    SparseGradient gradient;
    gradient.values = InputOf(*m, i);
    gradient.indices = InputOf(*update, indices);
    gradient.use_of_indices = {update, indices};
    if (IsScalar(gradient.values.node)) continue;
    if (IsProductOf(gradient.values, m, update, &gradient.uses_of_values) &&
        IsProductOf(gradient.values, v, update, &gradient.uses_of_values)) {
      return gradient;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<SparseGradient> SparseGradientOf(tf::Node* update) {
  const RowUpdate form = FactsOf(update->type_string()).row_update;
  if (form == RowUpdate::kNone) return std::nullopt;
  if (form == RowUpdate::kFusedAdam) return OfFusedAdam(update);
  const bool adds = form == RowUpdate::kScatterSum;
  const int values = ArgumentOf(*update, adds ? "updates" : "grad");
  const int indices = ArgumentOf(*update, "indices");
  if (values < 0 || indices < 0) return std::nullopt;
  SparseGradient gradient;
  gradient.values = InputOf(*update, values);
  gradient.indices = InputOf(*update, indices);
  gradient.uses_of_values = {{update, values}};
  gradient.use_of_indices = {update, indices};
  return gradient;
}

}  // namespace tensorbow
