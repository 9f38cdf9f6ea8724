#include "cc/passes/program/repeatable.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cc/graph/op_kinds.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// An op that draws numbers of a shape: which inputs are the shape and, for integers,
// the least value; the constant in their stead; which attributes are the types of the
// output and the shape.
struct Draw {
  int shape;
  int least;  // -1: `constant`
  double constant;
  const char* dtype;
  const char* shape_type;
};

const Draw* DrawOf(absl::string_view op) {
  // Exact in all floating-point types, and above the rate of any common dropout.
  constexpr double kUniform = 0.9375, kNormal = 0.5, kInteger = 7;
  static const auto* const draws = new std::map<std::string, Draw, std::less<>>{
      {"RandomUniform", {0, -1, kUniform, "dtype", "T"}},
      {"RandomStandardNormal", {0, -1, kNormal, "dtype", "T"}},
      {"TruncatedNormal", {0, -1, kNormal, "dtype", "T"}},
      {"RandomUniformInt", {0, 1, 0, "Tout", "T"}},
      {"StatelessRandomUniform", {0, -1, kUniform, "dtype", "T"}},
      {"StatelessRandomUniformV2", {0, -1, kUniform, "dtype", "Tshape"}},
      {"StatelessRandomNormal", {0, -1, kNormal, "dtype", "T"}},
      {"StatelessRandomNormalV2", {0, -1, kNormal, "dtype", "Tshape"}},
      {"StatelessTruncatedNormal", {0, -1, kNormal, "dtype", "T"}},
      {"StatelessTruncatedNormalV2", {0, -1, kNormal, "dtype", "Tshape"}},
      {"StatelessRandomUniformInt", {0, 2, 0, "dtype", "T"}},
      {"StatelessRandomUniformIntV2", {0, 4, 0, "dtype", "Tshape"}},
      {"StatelessRandomUniformFullInt", {0, -1, kInteger, "dtype", "T"}},
      {"StatelessRandomUniformFullIntV2", {0, -1, kInteger, "dtype", "Tshape"}},
      {"StatefulUniform", {2, -1, kUniform, "dtype", "shape_dtype"}},
      {"StatefulStandardNormal", {1, -1, kNormal, "dtype", "shape_dtype"}},
      {"StatefulStandardNormalV2", {2, -1, kNormal, "dtype", "shape_dtype"}},
      {"StatefulTruncatedNormal", {2, -1, kNormal, "dtype", "shape_dtype"}},
      {"StatefulUniformInt", {2, 3, 0, "dtype", "shape_dtype"}},
      {"StatefulUniformFullInt", {2, -1, kInteger, "dtype", "shape_dtype"}},
  };
  const auto known = draws->find(op);
  return known == draws->end() ? nullptr : &known->second;
}

// Whether the op hands its first input on, rows in another order perhaps, and does
// something beside that does not count.
bool HandsOn(absl::string_view op) {
  return op == "RandomShuffle" || op == "StatelessShuffle" || op == "Print" ||
         op == "CheckNumerics" || op == "CheckNumericsV2" ||
         op == "TensorBowReduceGradient";
}

bool IsRandom(absl::string_view op) {
  return DrawOf(op) != nullptr || absl::EndsWith(op, "CandidateSampler");
}

// Whether what the op changes lives no longer than the execution.
bool ChangesItsOwn(absl::string_view op) {
  return absl::StartsWith(op, "TensorArray") || absl::StartsWith(op, "Stack");
}

bool OnlyLooksUp(absl::string_view op) {
  return absl::StartsWith(op, "LookupTableFind") ||
         absl::StartsWith(op, "LookupTableSize") ||
         absl::StartsWith(op, "LookupTableExport");
}

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

bool IsRepeatable(const tf::NodeDef& node,
                  const tf::FunctionLibraryDefinition& functions) {
  const std::string& name = node.op();
  if (IsRandom(name) || ChangesItsOwn(name) || OnlyLooksUp(name)) return true;
  if (HandsOn(name) || OnlyLooksAt(name)) return true;
  if (name == "PyFuncStateless") return true;  // as the program says
  const tf::OpDef* op = nullptr;
  if (!functions.LookUpOpDef(name, &op).ok()) return false;
  if (MayBlock(name) || absl::StrContains(name, "Iterator") || IsGeneratorOp(name) ||
      KeepsRandomState(node, *op) || !WhyCentralOnly(name).empty()) {
    return false;
  }
  if (!CallsOf(node, functions).empty()) return true;
  // Tables, readers: they are there already.
  if (IsVariableOp(name) || HasSharedKernel(node, *op)) return true;
  for (const tf::OpDef::ArgDef& input : op->input_arg()) {
    if (WritesInput(name, input)) return false;
  }
  // What is stateful for another reason: it prints, saves, summarises.
  return !op->is_stateful() || OnlyReadsResource(name);
}

std::vector<tf::NodeDef> MakeConstant(tf::NodeDef* node, bool in_function) {
  if (HandsOn(node->op())) {
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
  const Draw* const draw = DrawOf(node->op());
  if (draw == nullptr) return {};
  std::vector<tf::NodeDef> made;
  const tf::AttrValue dtype = node->attr().at(draw->dtype);
  const tf::AttrValue shape_type = node->attr().at(draw->shape_type);
  std::string value;
  if (draw->least >= 0) {
    value = node->input(draw->least);
  } else {
    const std::string name = absl::StrCat(node->name(), "/constant");
    made.push_back(Constant(name, dtype.type(), draw->constant));
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
    if (refused || !IsRepeatable(node, functions_) ||
        absl::EndsWith(node.op(), "CandidateSampler")) {
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
