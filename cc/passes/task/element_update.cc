#include "cc/passes/task/element_update.h"

#include <algorithm>

#include "cc/graph/op_facts.h"
#include "tensorflow/core/graph/algorithm.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

bool IsComputed(const tf::Node& node) {
  return ElementOpOf(node.type_string()).has_value() ||
         IsOp(&node, {"AddN", "ClipByValue"});
}

}  // namespace

StaticShapes::StaticShapes(const tf::Graph& graph)
    : ops_(graph.op_registry()), refiner_(graph.versions().producer(), &ops_) {
  std::vector<tf::Node*> ordered;
  tf::GetReversePostOrder(graph, &ordered, tf::NodeComparatorName());
  for (tf::Node* node : ordered) {
    if (node->IsOp()) refiner_.AddNode(node).IgnoreError();
  }
}

std::optional<std::vector<int64_t>> StaticShapes::Of(const NodeOutput& tensor) const {
  auto* const context = refiner_.GetContext(tensor.node);
  if (context == nullptr || tensor.index >= context->num_outputs()) return std::nullopt;
  const auto shape = context->output(tensor.index);
  if (!context->RankKnown(shape)) return std::nullopt;
  std::vector<int64_t> sizes;
  for (int d = 0; d < context->Rank(shape); ++d) {
    sizes.push_back(context->Value(context->Dim(shape, d)));
  }
  return sizes;
}

bool StaticShapes::Is(const NodeOutput& tensor, const tf::TensorShape& shape) const {
  const auto dims = shape.dim_sizes();
  return Of(tensor) == std::vector<int64_t>(dims.begin(), dims.end());
}

bool StaticShapes::IsSingle(const NodeOutput& tensor, int rank) const {
  const auto sizes = Of(tensor);
  return sizes.has_value() && static_cast<int>(sizes->size()) <= rank &&
         std::all_of(sizes->begin(), sizes->end(),
                     [](int64_t size) { return size == 1; });
}

std::optional<ElementUpdate> ElementUpdate::Read(const AssignedVariables& variables,
                                                 const AssignedVariable& variable,
                                                 const Followers& updated,
                                                 const StaticShapes& shapes,
                                                 bool whole_gradient) {
  ElementUpdate update(variables, variable, updated, shapes, whole_gradient);
  if (!update.ReadAll()) return std::nullopt;
  return update;
}

bool ElementUpdate::ReadAll() {
  for (size_t i = 0; i < arrays_.size(); ++i) {  // the loop adds slots
    const Value result =
        After(static_cast<int>(i), static_cast<int>(arrays_[i]->writes.size()));
    if (!result.has_value()) return false;
    results_.push_back(ResultOf(*result));
  }
  return gradient_.node != nullptr;
}

std::optional<int> ElementUpdate::AddArray(const AssignedVariable& variable) {
  const auto at = std::find(arrays_.begin(), arrays_.end(), &variable);
  if (at != arrays_.end()) return static_cast<int>(at - arrays_.begin());
  if (arrays_.size() == ElementProgram::kMaxArrays) return std::nullopt;
  arrays_.push_back(&variable);
  return static_cast<int>(arrays_.size() - 1);
}

ElementUpdate::Value ElementUpdate::Append(ElementOp op, const Value& a,
                                           const Value& b) {
  if (!a.has_value() || !b.has_value()) return std::nullopt;
  if (a->kind == Operand::Kind::kScalar && b->kind == Operand::Kind::kScalar) {
    return std::nullopt;
  }
  instructions_.push_back({op, *a, *b});
  return Operand{Operand::Kind::kInstruction,
                 static_cast<int>(instructions_.size() - 1)};
}

ElementUpdate::Operand ElementUpdate::ResultOf(const Operand& value) {
  const bool taken = std::count(results_.begin(), results_.end(), value) > 0;
  if (value.kind == Operand::Kind::kInstruction && !taken) return value;
  return *Append(ElementOp::kIdentity, value, value);
}

ElementUpdate::Value ElementUpdate::After(int array, int count) {
  if (count == 0) return Operand{Operand::Kind::kArray, array};
  const auto key = std::make_pair(array, count);
  const auto known = after_.find(key);
  if (known != after_.end()) return known->second;
  after_[key] = std::nullopt;  // a cycle would be no value
  const tf::Node& write = *arrays_[array]->writes[count - 1];
  const Value operand = ValueOf(InputOf(write, 1));
  Value result;
  if (write.type_string() == "AssignVariableOp") {
    if (operand.has_value() && operand->kind != Operand::Kind::kScalar) {
      result = operand;
    }
  } else {
    const bool adds = write.type_string() == "AssignAddVariableOp";
    result = Append(adds ? ElementOp::kAdd : ElementOp::kSub, After(array, count - 1),
                    operand);
  }
  return after_[key] = result;
}

ElementUpdate::Value ElementUpdate::ValueOf(const NodeOutput& tensor) {
  const auto key = std::make_pair(tensor.node, tensor.index);
  const auto known = values_.find(key);
  if (known != values_.end()) return known->second;
  return values_[key] = Compute(tensor);
}

ElementUpdate::Value ElementUpdate::Compute(const NodeOutput& tensor) {
  if (tensor.node == nullptr ||
      tensor.node->output_type(tensor.index) != first().dtype) {
    return std::nullopt;
  }
  if (IsScalar(tensor)) {
    scalars_.push_back(tensor);
    return Operand{Operand::Kind::kScalar, static_cast<int>(scalars_.size() - 1)};
  }
  if (!shapes_->Is(tensor, first().shape)) return std::nullopt;
  if (const AssignedVariable* const variable = VariableOf(tensor)) {
    return ValueRead(*variable, tensor.node);
  }
  if (!IsComputed(*tensor.node) || (whole_gradient_ && !DependsOnVariables(tensor))) {
    if (gradient_.node == nullptr && MayBeGradient(*tensor.node)) gradient_ = tensor;
    if (!(gradient_ == tensor)) return std::nullopt;
    return Operand{Operand::Kind::kGradient, 0};
  }
  ops_.insert(tensor.node);
  return ComputeOp(*tensor.node);
}

bool ElementUpdate::IsScalar(const NodeOutput& tensor) {
  if (!shapes_->IsSingle(tensor, first().shape.dims())) return false;
  if (!shapes_->Is(tensor, first().shape)) return true;
  // The value of a one-element variable's update depends on data.
  return !DependsOnVariables(tensor) && !DependsOnData(*tensor.node);
}

bool ElementUpdate::DependsOnData(const tf::Node& node) {
  if (node.IsArg() || IsOp(&node, {kReduceGradient})) return true;
  if (IsOp(&node, {"VarHandleOp", "ReadVariableOp"})) return false;
  if (node.op_def().is_stateful()) return true;
  const auto [at, inserted] = of_data_.emplace(&node, false);
  if (!inserted) return at->second;
  for (const tf::Edge* edge : node.in_edges()) {
    if (edge->IsControlEdge() || !DependsOnData(*edge->src())) continue;
    return of_data_[&node] = true;
  }
  return false;
}

ElementUpdate::Value ElementUpdate::ComputeOp(const tf::Node& node) {
  const auto input = [&](int i) { return ValueOf(InputOf(node, i)); };
  if (node.type_string() == "Identity") return input(0);
  if (node.type_string() == "ClipByValue") {
    const Value below = Append(ElementOp::kMinimum, input(0), input(2));
    return Append(ElementOp::kMaximum, below, input(1));
  }
  if (node.type_string() == "AddN") {
    Value sum = input(0);
    for (int i = 1; i < node.num_inputs(); ++i) {
      sum = Append(ElementOp::kAdd, sum, input(i));
    }
    return sum;
  }
  const ElementOp op = *ElementOpOf(node.type_string());
  const Value a = input(0);
  return Append(op, a, NumArguments(op) == 1 ? a : input(1));
}

ElementUpdate::Value ElementUpdate::ValueRead(const AssignedVariable& variable,
                                              tf::Node* read) {
  const std::optional<int> before = variable.WritesBefore(*read);
  const std::optional<int> array = AddArray(variable);
  if (!before.has_value() || !array.has_value()) return std::nullopt;
  ops_.insert(read);
  reads_.emplace(read, *before);
  return After(*array, *before);
}

const AssignedVariable* ElementUpdate::VariableOf(const NodeOutput& tensor) const {
  if (tensor.node->type_string() != "ReadVariableOp") return nullptr;
  const auto variable = variables_->find(InputOf(*tensor.node, 0).node);
  return variable == variables_->end() ? nullptr : &variable->second;
}

bool ElementUpdate::MayBeGradient(const tf::Node& node) const {
  // Nodes added later are updates.
  return node.id() < static_cast<int>(updated_->size()) && !(*updated_)[node.id()];
}

bool ElementUpdate::DependsOnVariables(const NodeOutput& tensor) {
  if (VariableOf(tensor) != nullptr) return true;
  if (!IsComputed(*tensor.node)) return false;
  const auto [at, inserted] = depends_.emplace(tensor.node, false);
  if (!inserted) return at->second;
  bool depends = false;
  for (int i = 0; i < tensor.node->num_inputs(); ++i) {
    depends |= DependsOnVariables(InputOf(*tensor.node, i));
  }
  return depends_[tensor.node] = depends;
}

}  // namespace tensorbow
