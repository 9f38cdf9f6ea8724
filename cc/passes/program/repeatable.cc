#include "cc/passes/program/repeatable.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cc/graph/op_facts.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

void SetInputs(const std::vector<std::string>& inputs, tf::NodeDef* node) {
  std::vector<std::string> controls;
  for (const std::string& input : node->input()) {
    if (absl::StartsWith(input, "^")) controls.push_back(input);
  }
  node->clear_input();
  for (const std::string& input : inputs) node->add_input(input);
  for (const std::string& control : controls) node->add_input(control);
}

tf::NodeDef Constant(const std::string& name, tf::DataType dtype, double value) {
  tf::NodeDef node;
  node.set_name(name);
  node.set_op("Const");
  tf::AddNodeAttr("dtype", dtype, &node);
  tf::Tensor tensor(dtype, tf::TensorShape({}));
  switch (dtype) {
    case tf::DT_FLOAT:
      tensor.scalar<float>()() = static_cast<float>(value);
      break;
    case tf::DT_DOUBLE:
      tensor.scalar<double>()() = value;
      break;
    case tf::DT_HALF:
      tensor.scalar<Eigen::half>()() = static_cast<Eigen::half>(value);
      break;
    case tf::DT_BFLOAT16:
      tensor.scalar<tf::bfloat16>()() = static_cast<tf::bfloat16>(value);
      break;
    case tf::DT_INT32:
      tensor.scalar<int32_t>()() = static_cast<int32_t>(value);
      break;
    case tf::DT_UINT32:
      tensor.scalar<uint32_t>()() = static_cast<uint32_t>(value);
      break;
    case tf::DT_UINT64:
      tensor.scalar<uint64_t>()() = static_cast<uint64_t>(value);
      break;
    default:
      tensor.scalar<int64_t>()() = static_cast<int64_t>(value);
      break;
  }
  tf::AddNodeAttr("value", tensor, &node);
  return node;
}

}  // namespace

bool IsCandidateSampler(absl::string_view op) {
  const OpFacts& facts = FactsOf(op);
  return facts.draws && facts.draw == nullptr;
}

bool IsRepeatable(const tf::NodeDef& node,
                  const tf::FunctionLibraryDefinition& functions) {
  const std::string& name = node.op();
  const OpFacts& facts = FactsOf(name);
  if (facts.draws || facts.repetition != Repetition::kUnknown) return true;
  const tf::OpDef* op = nullptr;
  if (!functions.LookUpOpDef(name, &op).ok()) return false;
  if (facts.may_block || facts.is_iterator || facts.advances_generator ||
      KeepsRandomState(node, *op) || !facts.why_central.empty()) {
    return false;
  }
  if (!CallsOf(node, functions).empty()) return true;
  // Tables, readers: they are there already.
  if (facts.creates_variable || HasSharedKernel(node, *op)) return true;
  for (const tf::OpDef::ArgDef& input : op->input_arg()) {
    if (WritesInput(name, input)) return false;
  }
  // What is stateful for another reason: it prints, saves, summarises.
  return !op->is_stateful() || facts.only_reads_resource;
}

std::vector<tf::NodeDef> MakeConstant(tf::NodeDef* node, bool in_function) {
  if (FactsOf(node->op()).repetition == Repetition::kHandsInputOn) {
    const tf::AttrValue dtype = node->attr().at("T");
    SetInputs({node->input(0)}, node);
    node->set_op("Identity");
    node->clear_attr();
    (*node->mutable_attr())["T"] = dtype;
    return {};
  }
  if (node->op() == "PrintV2") {
    SetInputs({}, node);
    node->set_op("NoOp");
    node->clear_attr();
    return {};
  }
  const Draw* const draw = FactsOf(node->op()).draw;
  if (draw == nullptr) return {};
  std::vector<tf::NodeDef> made;
  const tf::AttrValue dtype = node->attr().at(draw->dtype);
  const tf::AttrValue shape_type = node->attr().at(draw->shape_type);
  std::string value;
  if (draw->least >= 0) {
    value = node->input(draw->least);
  } else {
    const std::string name = absl::StrCat(node->name(), "/constant");
    made.push_back(Constant(name, dtype.type(), draw->typical));
    // In a loop, a constant is of the frame of what it waits for.
    const std::string& shape = node->input(draw->shape);
    if (!in_function) {
      made.back().add_input(absl::StrCat("^", shape.substr(0, shape.find(':'))));
    }
    value = in_function ? absl::StrCat(name, ":output:0") : name;
  }
  SetInputs({node->input(draw->shape), value}, node);
  node->set_op("Fill");
  node->clear_attr();
  (*node->mutable_attr())["T"] = dtype;
  (*node->mutable_attr())["index_type"] = shape_type;
  return made;
}

// ----------------------------------------------------------- RepeatableFunctions

absl::Status RepeatableFunctions::MakeRepeatable(tf::NodeDef* node) {
  if (functions_.Contains(node->op())) {
    TF_ASSIGN_OR_RETURN(const std::string copy, Copy(node->op()));
    node->set_op(copy);
  }
  for (auto& [name, value] : *node->mutable_attr()) {
    if (absl::StartsWith(name, "_")) continue;
    if (value.has_func()) {
      TF_ASSIGN_OR_RETURN(const std::string copy, Copy(value.func().name()));
      value.mutable_func()->set_name(copy);
    }
    if (!value.has_list()) continue;
    for (tf::NameAttrList& function : *value.mutable_list()->mutable_func()) {
      TF_ASSIGN_OR_RETURN(const std::string copy, Copy(function.name()));
      function.set_name(copy);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> RepeatableFunctions::Copy(const std::string& name) {
  const auto known = copies_.find(name);
  if (known != copies_.end()) return known->second;
  const auto record = functions_.FindRecord(name);
  if (record == nullptr) return copies_[name] = name;
  const EffectSummary& summary = summaries_.Of(name);
  bool refused = summary.reads_iterator;
  for (const Effects& argument : summary.roots) refused |= argument.written;
  const tf::FunctionDef& original = record->fdef();
  tf::FunctionDef copy = original;
  copy.clear_node_def();
  copies_[name] = name;  // while under way: ends recursion
  bool differs = false;
  for (const tf::NodeDef& node : original.node_def()) {
    if (refused || !IsRepeatable(node, functions_) || IsCandidateSampler(node.op())) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the function '", name, "' (", node.op(), ") cannot be executed twice"));
    }
    tf::NodeDef changed = node;
    TF_RETURN_IF_ERROR(MakeRepeatable(&changed));
    for (tf::NodeDef& made : MakeConstant(&changed, /*in_function=*/true)) {
      *copy.add_node_def() = std::move(made);
      differs = true;
    }
    differs |= changed.SerializeAsString() != node.SerializeAsString();
    *copy.add_node_def() = std::move(changed);
  }
  if (!differs) return name;
  std::string own =
      absl::StrReplaceAll(absl::StrCat(prefix_, name), {{"/", "_"}, {".", "_"}});
  copy.mutable_signature()->set_name(own);
  *library_->add_function() = std::move(copy);
  return copies_[name] = own;
}

}  // namespace tensorbow
