#include "cc/passes/program/run_edits.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/graph/control_flow.h"
#include "cc/graph/op_facts.h"
#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

tf::TensorProto ZeroOf(tf::DataType dtype) {
  tf::TensorProto zero;
  zero.set_dtype(dtype);
  zero.mutable_tensor_shape();
  return zero;  // a value that is not given is zero
}

}  // namespace

RunEdits::RunEdits(const ProgramGraph& program, tf::GraphDef* graph)
    : program_(program), graph_(graph) {
  for (int i = 0; i < graph->node_size(); ++i) {
    nodes_[graph->node(i).name()] = i;
    has_control_flow_ |= BeginsControlFlow(graph->node(i));
    for (const std::string& input : graph->node(i).input()) {
      const TensorName tensor = ParseTensor(input);
      if (tensor.control) {
        followers_[tensor.node].push_back(i);
      } else {
        users_[Canonical(input)].push_back(i);
        consumers_[tensor.node].push_back(i);
      }
    }
  }
}

void RunEdits::Finish() {
  for (tf::NodeDef& node : added_) *graph_->add_node() = std::move(node);
  added_.clear();
}

tf::NodeDef* RunEdits::Node(absl::string_view name) {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? nullptr : graph_->mutable_node(found->second);
}

std::vector<std::string> RunEdits::NodesOf(absl::string_view op) const {
  std::vector<std::string> names;
  for (const tf::NodeDef& node : graph_->node()) {
    if (node.op() == op) names.push_back(node.name());
  }
  return names;
}

size_t RunEdits::NumUsers(const std::string& tensor) const {
  const auto users = users_.find(tensor);
  return users == users_.end() ? 0 : users->second.size();
}

TensorName RunEdits::InputNow(const tf::NodeDef& node, int input) const {
  return ParseTensor(node.input(input));
}

std::string RunEdits::NameBeside(const TensorName& tensor,
                                 absl::string_view what) const {
  return absl::StrCat(tensor.node, "/TensorBow.", what, ".", tensor.index);
}

absl::StatusOr<tf::DataType> RunEdits::TypeOf(absl::string_view tensor) const {
  const TensorName name = ParseTensor(tensor);
  const tf::NodeDef* const node = program_.Find(name.node);
  if (node == nullptr) return absl::NotFoundError(tensor);
  const tf::OpDef* op = nullptr;
  TF_RETURN_IF_ERROR(program_.functions().LookUpOpDef(node->op(), &op));
  tf::DataTypeVector types;
  TF_RETURN_IF_ERROR(tf::OutputTypesForNode(*node, *op, &types));
  return tf::BaseType(types.at(name.index));
}

void RunEdits::Replace(const std::string& tensor, const std::string& other,
                       const absl::flat_hash_set<std::string>& keep) {
  for (int user : users_[tensor]) {
    if (keep.contains(graph_->node(user).name())) continue;
    for (std::string& input : *graph_->mutable_node(user)->mutable_input()) {
      if (!ParseTensor(input).control && Canonical(input) == tensor) input = other;
    }
  }
}

absl::Status RunEdits::AddExchange(const std::string& made, const TensorName& tensor,
                                   tf::DataType dtype, const char* how, int exponent) {
  return tf::NodeDefBuilder(made, kExchange)
      .Input(tensor.node, tensor.index, dtype)
      .Attr("how", how)
      .Attr("exponent", exponent)
      .Finalize(&Add());
}

absl::StatusOr<std::string> RunEdits::AddExchangeInBranch(
    const TensorName& tensor, const std::vector<Branch>& branches, tf::DataType dtype,
    const char* how, int exponent) {
  // Zeros take the place of the tensor where its branch is not executed, and nobody
  // reads the result there.
  const std::string made = NameBeside(tensor, "exchange");
  TensorName value = tensor;
  std::deque<std::string> names;  // which `value` views
  for (size_t k = branches.size(); k-- > 0;) {
    const TensorName predicate = ParseTensor(branches[k].predicate);
    const std::string pivot = absl::StrCat(made, "/switch.", k);
    TF_RETURN_IF_ERROR(tf::NodeDefBuilder(pivot, "Switch")
                           .Input(predicate.node, predicate.index, tf::DT_BOOL)
                           .Input(predicate.node, predicate.index, tf::DT_BOOL)
                           .Finalize(&Add()));
    const std::string other = absl::StrCat(made, "/other.", k);
    TF_RETURN_IF_ERROR(tf::NodeDefBuilder(other, "Identity")
                           .Input(pivot, branches[k].value ? 0 : 1, tf::DT_BOOL)
                           .Finalize(&Add()));
    const std::string zero = absl::StrCat(made, "/zero.", k);
    TF_RETURN_IF_ERROR(tf::NodeDefBuilder(zero, "Const")
                           .Attr("dtype", dtype)
                           .Attr("value", ZeroOf(dtype))
                           .ControlInput(other)
                           .Finalize(&Add()));
    names.push_back(absl::StrCat(made, "/merge.", k));
    TF_RETURN_IF_ERROR(
        tf::NodeDefBuilder(names.back(), "Merge")
            .Input({{std::string(value.node), value.index, dtype}, {zero, 0, dtype}})
            .Finalize(&Add()));
    value = {names.back(), 0, false};
  }
  TF_RETURN_IF_ERROR(AddExchange(made, value, dtype, how, exponent));
  std::string result = absl::StrCat(made, ":0");
  for (size_t k = 0; k < branches.size(); ++k) {
    const TensorName predicate = ParseTensor(branches[k].predicate);
    const TensorName now = ParseTensor(result);
    const std::string back = absl::StrCat(made, "/back.", k);
    TF_RETURN_IF_ERROR(tf::NodeDefBuilder(back, "Switch")
                           .Input(now.node, now.index, dtype)
                           .Input(predicate.node, predicate.index, tf::DT_BOOL)
                           .Finalize(&Add()));
    result = absl::StrCat(back, branches[k].value ? ":1" : ":0");
  }
  return result;
}

absl::Status RunEdits::AddRescale(const std::string& made, const TensorName& tensor,
                                  tf::DataType dtype, int power) {
  return tf::NodeDefBuilder(made, kRescale)
      .Input(tensor.node, tensor.index, dtype)
      .Attr("power", power)
      .Finalize(&Add());
}

absl::StatusOr<const tf::NodeDef*> RunEdits::Exchangeable(
    absl::string_view node) const {
  const tf::NodeDef* const found = program_.Find(node);
  if (found == nullptr) return Misplaced(node, "is to be exchanged in a function");
  if (has_control_flow_ && LiesInControlFlow(program_, node)) {
    return Misplaced(node, "is to be exchanged in a conditional or a loop");
  }
  return found;
}

absl::Status RunEdits::Misplaced(absl::string_view node, absl::string_view why) const {
  node = ProgramsName(node);
  const tf::NodeDef* const found = program_.Find(node);
  return absl::InvalidArgumentError(absl::StrCat(
      found == nullptr ? "an operation" : found->op(), " '", node, "' ", why));
}

absl::flat_hash_set<std::string> RunEdits::MakersOf(const std::string& name) const {
  absl::flat_hash_set<std::string> makers;
  std::vector<std::string> open = {name};
  while (!open.empty()) {
    const tf::NodeDef* const node = program_.Find(open.back());
    open.pop_back();
    if (node == nullptr || !makers.insert(node->name()).second) continue;
    for (const std::string& input : node->input()) {
      const TensorName tensor = ParseTensor(input);
      if (!tensor.control) open.emplace_back(tensor.node);
    }
  }
  return makers;
}

}  // namespace tensorbow
