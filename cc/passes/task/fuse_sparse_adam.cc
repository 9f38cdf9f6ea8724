#include "cc/passes/task/fuse_sparse_adam.h"

#include <array>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/graph/node_inputs.h"
#include "cc/graph/op_facts.h"
#include "cc/graph/updates.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// One of the two slots.
struct Slot {
  tf::Node* variable = nullptr;
  NodeOutput beta;
  NodeOutput updates;  // the terms added to rows
  NodeOutput rows;
  std::vector<tf::Node*> nodes;  // nodes that update and read it, the last one first
};

// Returns the variable whose value the tensor is: itself, an identity of it or a read;
// null for other tensors.
tf::Node* VariableOf(const NodeOutput& value) {
  tf::Node* node = value.node;
  if (IsOp(node, {"Identity", "ReadVariableOp"})) node = InputOf(*node, 0).node;
  return node != nullptr && FactsOf(node->type_string()).creates_variable ? node
                                                                          : nullptr;
}

// Returns a node that `node` waits for, of one of `ops`, that writes the variable.
tf::Node* WaitsFor(const tf::Node& node, std::initializer_list<const char*> ops,
                   const tf::Node& variable) {
  for (const tf::Edge* edge : node.in_edges()) {
    if (edge->IsControlEdge() && IsOp(edge->src(), ops) &&
        InputOf(*edge->src(), 0).node == &variable) {
      return edge->src();
    }
  }
  return nullptr;
}

// Returns the slot whose new value `value` is, taken by `user` alone; without a
// variable if it is none.
Slot FindSlot(const NodeOutput& value, const tf::Node& user) {
  Slot slot;
  tf::Node* scatter = nullptr;
  tf::Node* variable = nullptr;
  if (IsOp(value.node, {"ScatterAdd"})) {
    scatter = value.node;
    variable = InputOf(*scatter, 0).node;
  } else if (IsOp(value.node, {"ReadVariableOp"}) && IsOnlyFor(*value.node, &user)) {
    variable = InputOf(*value.node, 0).node;
    scatter = WaitsFor(*value.node, {"ResourceScatterAdd"}, *variable);
    slot.nodes.push_back(value.node);
  }
  if (scatter == nullptr || !FactsOf(variable->type_string()).creates_variable ||
      !IsOnlyFor(*scatter, &user)) {
    return {};
  }
  tf::Node* const assign =
      WaitsFor(*scatter, {"Assign", "AssignVariableOp"}, *variable);
  if (assign == nullptr || !IsOnlyFor(*assign, nullptr)) return {};
  tf::Node* const decayed = InputOf(*assign, 1).node;
  if (!IsOp(decayed, {"Mul"}) || !IsOnlyFor(*decayed, assign)) return {};
  const NodeOutput first = InputOf(*decayed, 0), second = InputOf(*decayed, 1);
  const bool value_first = VariableOf(first) == variable;
  if (!value_first && VariableOf(second) != variable) return {};
  slot.beta = value_first ? second : first;

  for (const tf::Edge* edge : WritingEdges(*variable)) {
    if (edge->dst() != scatter && edge->dst() != assign) return {};
  }
  slot.variable = variable;
  slot.rows = InputOf(*scatter, 1);
  slot.updates = InputOf(*scatter, 2);
  slot.nodes.insert(slot.nodes.end(), {scatter, assign, decayed});
  tf::Node* const read = (value_first ? first : second).node;
  if (read != variable && IsOnlyFor(*read, decayed)) slot.nodes.push_back(read);
  return slot;
}

// A complete update by Adam.
struct SparseAdamUpdate {
  tf::Node* update = nullptr;  // the AssignSub
  tf::Node* variable = nullptr;
  Slot m, v;
  NodeOutput rate, epsilon;
  std::vector<tf::Node*> nodes;  // all nodes, the update first
};

// Returns whether the tensor is known to have dimensions.
bool IsArray(const NodeOutput& value) {
  const tf::Node* node = value.node;
  if (IsOp(node, {"Identity", "ReadVariableOp"})) node = InputOf(*node, 0).node;
  if (node == nullptr) return true;
  if (node->IsConstant()) {
    return node->def().attr().at("value").tensor().tensor_shape().dim_size() > 0;
  }
  tf::PartialTensorShape shape;
  return FactsOf(node->type_string()).creates_variable &&
         tf::GetNodeAttr(node->attrs(), "shape", &shape).ok() && shape.dims() > 0;
}

bool FindSparseAdam(tf::Node* update, SparseAdamUpdate* found) {
  if (!IsOp(update, {"AssignSub", "AssignSubVariableOp"})) return false;
  tf::Node* const variable = InputOf(*update, 0).node;
  if (variable == nullptr || !FactsOf(variable->type_string()).creates_variable ||
      OnlyUpdate(*variable) != update) {
    return false;
  }
  tf::Node* const quotient = InputOf(*update, 1).node;
  if (!IsOp(quotient, {"RealDiv"}) || !IsOnlyFor(*quotient, update)) return false;
  tf::Node* const scaled = InputOf(*quotient, 0).node;
  tf::Node* const denominator = InputOf(*quotient, 1).node;
  if (!IsOp(scaled, {"Mul"}) || !IsOnlyFor(*scaled, quotient)) return false;
  if (!IsOp(denominator, {"Add", "AddV2"}) || !IsOnlyFor(*denominator, quotient)) {
    return false;
  }
  tf::Node* root = nullptr;
  for (int i = 0; i < 2; ++i) {
    tf::Node* const input = InputOf(*denominator, i).node;
    if (!IsOp(input, {"Sqrt"}) || !IsOnlyFor(*input, denominator)) continue;
    root = input;
    found->epsilon = InputOf(*denominator, 1 - i);
  }
  if (root == nullptr) return false;
  for (int i = 0; i < 2 && found->m.variable == nullptr; ++i) {
    found->m = FindSlot(InputOf(*scaled, i), *scaled);
    found->rate = InputOf(*scaled, 1 - i);
  }
  found->v = FindSlot(InputOf(*root, 0), *root);
  if (found->m.variable == nullptr || found->v.variable == nullptr) return false;
  if (!(found->m.rows == found->v.rows) || found->m.variable == found->v.variable ||
      found->m.variable == variable || found->v.variable == variable) {
    return false;
  }
  for (const NodeOutput& scalar :
       {found->rate, found->m.beta, found->v.beta, found->epsilon}) {
    if (IsArray(scalar)) return false;
  }
  found->update = update;
  found->variable = variable;
  found->nodes = {update, quotient, scaled, denominator, root};
  for (const Slot* slot : {&found->m, &found->v}) {
    found->nodes.insert(found->nodes.end(), slot->nodes.begin(), slot->nodes.end());
  }
  return true;
}

// Returns whether another node lies between these nodes: one op that replaces them
// would wait for itself.
bool IsInterrupted(const std::vector<tf::Node*>& nodes) {
  const std::set<const tf::Node*> own(nodes.begin(), nodes.end());
  std::vector<const tf::Node*> pending;
  std::set<const tf::Node*> after;
  const auto follow = [&](const tf::Node* node) {
    for (const tf::Node* next : node->out_nodes()) {
      if (next->IsOp() && own.count(next) == 0 && after.insert(next).second) {
        pending.push_back(next);
      }
    }
  };
  for (const tf::Node* node : nodes) follow(node);
  while (!pending.empty()) {
    const tf::Node* const node = pending.back();
    pending.pop_back();
    follow(node);
  }
  for (const tf::Node* node : nodes) {
    for (const tf::Node* input : node->in_nodes()) {
      if (after.count(input) > 0) return true;
    }
  }
  return false;
}

// Returns the inputs of the new op.
std::array<NodeOutput, 10> InputsOf(const SparseAdamUpdate& found) {
  return {NodeOutput{found.variable, 0},
          {found.m.variable, 0},
          {found.v.variable, 0},
          found.rate,
          found.m.beta,
          found.v.beta,
          found.epsilon,
          found.m.updates,
          found.v.updates,
          found.m.rows};
}

tf::NodeDef Definition(const SparseAdamUpdate& found) {
  const bool resource = found.variable->output_type(0) == tf::DT_RESOURCE;
  tf::NodeDef definition;
  definition.set_name(found.update->name());
  definition.set_op(resource ? "TensorBowResourceSparseApplyAdam"
                             : "TensorBowSparseApplyAdam");
  definition.set_device(found.update->requested_device());
  for (const NodeOutput& input : InputsOf(found)) {
    definition.add_input(absl::StrCat(input.node->name(), ":", input.index));
  }
  auto& attributes = *definition.mutable_attr();
  attributes["T"].set_type(found.m.updates.node->output_type(found.m.updates.index));
  attributes["Tindices"].set_type(found.m.rows.node->output_type(found.m.rows.index));
  attributes["member"].set_i(-1);
  return definition;
}

bool HasKernel(const tf::NodeDef& definition, const std::string& device_name) {
  tf::DeviceNameUtils::ParsedName device;
  return tf::DeviceNameUtils::ParseFullName(device_name, &device) &&
         tf::KernelDefAvailable(tf::DeviceType(device.type), definition);
}

absl::Status Replace(const SparseAdamUpdate& found, tf::Graph* graph) {
  tf::NodeDef definition = Definition(found);
  const std::string device = found.update->assigned_device_name();
  if (!HasKernel(definition, device) || IsInterrupted(found.nodes)) {
    return absl::OkStatus();
  }

  const std::set<const tf::Node*> own(found.nodes.begin(), found.nodes.end());
  std::set<tf::Node*> before, after;
  std::vector<std::pair<tf::Node*, int>> users;  // of the reference
  for (tf::Node* node : found.nodes) {
    for (const tf::Edge* edge : node->in_edges()) {
      if (edge->IsControlEdge() && own.count(edge->src()) == 0) {
        before.insert(edge->src());
      }
    }
    for (const tf::Edge* edge : node->out_edges()) {
      if (own.count(edge->dst()) > 0) continue;
      if (edge->IsControlEdge()) {
        after.insert(edge->dst());
      } else {
        users.emplace_back(edge->dst(), edge->dst_input());
      }
    }
  }
  const std::array<NodeOutput, 10> inputs = InputsOf(found);
  for (tf::Node* node : found.nodes) graph->RemoveNode(node);
  absl::Status status;
  tf::Node* const fused = graph->AddNode(std::move(definition), &status);
  TF_RETURN_IF_ERROR(status);
  fused->set_assigned_device_name(device);
  for (size_t i = 0; i < inputs.size(); ++i) {
    graph->AddEdge(inputs[i].node, inputs[i].index, fused, static_cast<int>(i));
  }
  for (tf::Node* node : before) graph->AddControlEdge(node, fused);
  for (tf::Node* node : after) graph->AddControlEdge(fused, node);
  for (const auto& [node, input] : users) graph->AddEdge(fused, 0, node, input);
  return absl::OkStatus();
}

}  // namespace

absl::Status FuseSparseAdam(TaskGraph* task) {
  for (TaskPart& part : task->parts) {
    std::vector<SparseAdamUpdate> updates;
    for (tf::Node* node : part.graph->op_nodes()) {
      SparseAdamUpdate found;
      if (FindSparseAdam(node, &found)) updates.push_back(std::move(found));
    }
    for (const SparseAdamUpdate& found : updates) {
      TF_RETURN_IF_ERROR(Replace(found, part.graph.get()));
    }
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
