#include "cc/passes/loops/known_values.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/common_runtime/eval_const_tensor.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// The size of the largest constant that is looked for among others, in bytes.
constexpr size_t kShared = 64;

}  // namespace

std::optional<tf::Tensor> CountedBy(const std::string& op, const tf::Tensor& a,
                                    const tf::Tensor& b) {
  if (a.dims() != 0 || b.dims() != 0 || a.dtype() != b.dtype()) return std::nullopt;
  if (a.dtype() == tf::DT_BOOL && op == "LogicalAnd") {
    return tf::Tensor(a.scalar<bool>()() && b.scalar<bool>()());
  }
  if (a.dtype() != tf::DT_INT32) return std::nullopt;
  const int x = a.scalar<int>()(), y = b.scalar<int>()();
  if (op == "Less") return tf::Tensor(x < y);
  if (op == "GreaterEqual") return tf::Tensor(x >= y);
  int next = 0;
  const bool adds = op == "AddV2" || op == "Add";
  if (adds && !__builtin_add_overflow(x, y, &next)) return tf::Tensor(next);
  if (op == "Sub" && !__builtin_sub_overflow(x, y, &next)) return tf::Tensor(next);
  return std::nullopt;
}

KnownValues::KnownValues(tf::Graph* graph)
    : graph_(graph),
      ops_(graph->op_registry()),
      refiner_(graph->versions(), &ops_),
      runner_(tf::Env::Default()) {
  refiner_.set_require_shape_inference_fns(false);
  refiner_.set_function_library_for_shape_inference(&graph->flib_def());
}

absl::Status KnownValues::Infer(const tf::Node* node) {
  if (refiner_.GetContext(node) != nullptr) return absl::OkStatus();
  int replaced = 0;
  for (int i = 0; i < node->num_outputs(); ++i) replaced += replaced_.count({node, i});
  const bool all = replaced > 0 && replaced == node->num_outputs();
  return all ? absl::OkStatus() : refiner_.AddNode(node);
}

absl::StatusOr<tf::Node*> KnownValues::Add(tf::NodeBuilder& builder) {
  tf::Node* node = nullptr;
  TF_RETURN_IF_ERROR(builder.Finalize(graph_, &node));
  TF_RETURN_IF_ERROR(Infer(node));
  return node;
}

absl::StatusOr<tf::OutputTensor> KnownValues::AddConstant(const tf::Tensor& value) {
  std::string key;
  if (tf::DataTypeIsInteger(value.dtype()) && value.TotalBytes() <= kShared) {
    key = absl::StrCat(value.dtype(), value.shape().DebugString(), value.tensor_data());
    const auto same = added_.find(key);
    if (same != added_.end()) return same->second;
  }
  tf::NodeBuilder builder(graph_->NewName("TensorBow/constant"), "Const");
  builder.Attr("dtype", value.dtype()).Attr("value", value);
  TF_ASSIGN_OR_RETURN(tf::Node* const node, Add(builder));
  constants_[{node, 0}] = value;
  const tf::OutputTensor constant(node, 0);
  if (!key.empty()) added_[std::move(key)] = constant;
  return constant;
}

absl::Status KnownValues::SetInput(tf::Node* node, int input, const tf::Tensor& value) {
  TF_ASSIGN_OR_RETURN(const tf::OutputTensor constant, AddConstant(value));
  return graph_->UpdateEdge(constant.node, constant.index, node, input);
}

absl::Status KnownValues::ReplaceByConstant(const tf::OutputTensor& tensor,
                                            const tf::Tensor& value) {
  TF_ASSIGN_OR_RETURN(const tf::OutputTensor constant, AddConstant(value));
  Replace(tensor, constant);
  return absl::OkStatus();
}

void KnownValues::Replace(const tf::OutputTensor& tensor,
                          const tf::OutputTensor& replacement) {
  replaced_[{tensor.node, tensor.index}] = replacement;
}

tf::OutputTensor KnownValues::Current(tf::OutputTensor tensor) const {
  for (;;) {
    const auto replaced = replaced_.find({tensor.node, tensor.index});
    if (replaced == replaced_.end()) return tensor;
    tensor = replaced->second;
  }
}

tf::OutputTensor KnownValues::InputOf(const tf::Node& node, int input) const {
  const tf::Edge* edge = nullptr;
  CHECK(node.input_edge(input, &edge).ok());  // Crash OK: a malformed graph
  return Current({edge->src(), edge->src_output()});
}

std::optional<tf::Tensor> KnownValues::Constant(const tf::OutputTensor& tensor) {
  const Key key(tensor.node, tensor.index);
  const auto known = constants_.find(key);
  if (known != constants_.end()) return known->second;
  constants_[key] = std::nullopt;
  if (tensor.node->IsConstant()) {
    tf::Tensor value;
    TF_CHECK_OK(tf::GetNodeAttr(tensor.node->attrs(), "value", &value));
    return constants_[key] = value;
  }
  const tf::DataType type = tensor.node->output_type(tensor.index);
  if (tensor.node->num_inputs() == 2 && (type == tf::DT_INT32 || type == tf::DT_BOOL) &&
      IsScalar(tensor)) {
    const std::optional<tf::Tensor> a = Constant(InputOf(*tensor.node, 0));
    const std::optional<tf::Tensor> b = Constant(InputOf(*tensor.node, 1));
    if (a.has_value() && b.has_value()) {
      const auto counted = CountedBy(tensor.node->type_string(), *a, *b);
      if (counted.has_value()) return constants_[key] = counted;
    }
  }
  return constants_[key] = Evaluate(
             tensor,
             [this](const tf::Node& node, int index) -> std::optional<tf::Tensor> {
               const auto found = constants_.find({&node, index});
               return found == constants_.end() ? std::nullopt : found->second;
             });
}

std::optional<tf::Tensor> KnownValues::Evaluate(const tf::OutputTensor& tensor,
                                                Lookup lookup) {
  const auto evaluated = tf::EvaluateConstantTensor(
      *tensor.node, tensor.index, refiner_, lookup,
      tf::EvaluateConstantTensorRunner{graph_->op_registry(),
                                       graph_->versions().producer(), &runner_});
  return evaluated.ok() ? *evaluated : std::nullopt;
}

std::optional<int> KnownValues::Integer(const tf::OutputTensor& tensor) {
  if (tensor.node->output_type(tensor.index) != tf::DT_INT32) return std::nullopt;
  const std::optional<tf::Tensor> value = Constant(tensor);
  if (!value.has_value() || value->dims() != 0) return std::nullopt;
  return value->scalar<int>()();
}

std::optional<int64_t> KnownValues::Rows(const tf::OutputTensor& tensor) const {
  tf::shape_inference::InferenceContext* const context =
      refiner_.GetContext(tensor.node);
  const auto shape = context->output(tensor.index);
  if (!context->RankKnown(shape) || context->Rank(shape) < 1) return std::nullopt;
  const auto rows = context->Dim(shape, 0);
  if (!context->ValueKnown(rows)) return std::nullopt;
  return context->Value(rows);
}

std::optional<int> KnownValues::Rank(const tf::OutputTensor& tensor) const {
  tf::shape_inference::InferenceContext* const context =
      refiner_.GetContext(tensor.node);
  if (context == nullptr) return std::nullopt;
  const auto shape = context->output(tensor.index);
  if (!context->RankKnown(shape)) return std::nullopt;
  return context->Rank(shape);
}

}  // namespace tensorbow
