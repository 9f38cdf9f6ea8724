#include "cc/passes/task/exchange_moments.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cc/graph/downstream.h"
#include "cc/graph/node_inputs.h"
#include "cc/graph/op_facts.h"
#include "cc/graph/updates.h"
#include "cc/passes/task/reduce_gradients.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/node_builder.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Outputs of the op that its gradient takes.
constexpr int kSavedMean = 3, kSavedVariance = 4;

std::string OpOf(const tf::Node& node) {
  absl::string_view op = node.type_string();
  absl::ConsumePrefix(&op, "_MklNative");
  absl::ConsumePrefix(&op, "_");
  return std::string(op);
}

bool IsGradient(const tf::Node& node) { return OpOf(node) == "FusedBatchNormGradV3"; }

// Returns whether the node is a batch normalisation, of any version and in either mode.
bool IsBatchNorm(const tf::Node& node) {
  const std::string op = OpOf(node);
  return absl::StartsWith(op, "FusedBatchNorm") && !absl::StrContains(op, "Grad");
}

template <typename T>
T Attribute(const tf::Node& node, const char* name, T otherwise) {
  T value = otherwise;
  tf::GetNodeAttr(node.attrs(), name, &value).IgnoreError();
  return value;
}

// Returns whether rows are normalised by their own moments, not by those of earlier
// batches.
bool UsesMoments(const tf::Node& node) { return Attribute(node, "is_training", true); }

bool HasOurForm(const tf::Node& node) {
  const auto activation = Attribute<std::string>(node, "activation_mode", "Identity");
  const std::string op = OpOf(node);
  const bool known = op == "FusedBatchNormV3" || op == "FusedBatchNormEx";
  return (known || IsGradient(node)) && UsesMoments(node) &&
         Attribute<std::string>(node, "data_format", "NHWC") == "NHWC" &&
         Attribute(node, "T", tf::DT_FLOAT) == tf::DT_FLOAT &&
         Attribute(node, "U", tf::DT_FLOAT) == tf::DT_FLOAT &&
         Attribute(node, "exponential_avg_factor", 1.0F) == 1 &&
         Attribute<int64_t>(node, "num_side_inputs", 0) == 0 &&
         (activation == "Identity" || activation == "Relu");
}

// Returns the normalisation of a gradient; null if it cannot be found.
const tf::Node* NormalisationOf(const tf::Node& gradient) {
  const NodeOutput mean = InputOf(gradient, 3), variance = InputOf(gradient, 4);
  if (mean.node != variance.node || mean.index != kSavedMean ||
      variance.index != kSavedVariance || mean.node == nullptr) {
    return nullptr;
  }
  return IsBatchNorm(*mean.node) ? mean.node : nullptr;
}

// Returns the normalisations by moments, and whether they can be replaced with all of
// their gradients.
std::map<const tf::Node*, bool> Replaceable(const std::vector<tf::Node*>& nodes,
                                            const NodeSet& conditional) {
  std::map<const tf::Node*, bool> replaceable;
  for (const tf::Node* node : nodes) {
    if (!IsBatchNorm(*node) || !UsesMoments(*node)) continue;
    replaceable[node] = HasOurForm(*node) && conditional.count(node) == 0;
  }
  for (const tf::Node* node : nodes) {
    if (!IsGradient(*node)) continue;
    const auto forward = replaceable.find(NormalisationOf(*node));
    if (forward == replaceable.end()) continue;
    forward->second &= HasOurForm(*node) && conditional.count(node) == 0;
  }
  // Other users of the outputs saved for the gradient would read other values.
  for (auto& [forward, fits] : replaceable) {
    for (const tf::Edge* edge : forward->out_edges()) {
      if (edge->src_output() < kSavedMean) continue;
      fits &= IsGradient(*edge->dst()) && NormalisationOf(*edge->dst()) == forward;
    }
  }
  return replaceable;
}

bool IsExchangeOfGradient(const tf::Node& node) {
  return IsOp(&node, {kReduceGradient, kReduceRows}) || IsFusedUpdate(node);
}

absl::Status Replace(tf::Node* node, int index, tf::Graph* graph, tf::Node** made) {
  const auto input = [node](int i) {
    const NodeOutput tensor = InputOf(*node, i);
    return tf::NodeBuilder::NodeOut(tensor.node, tensor.index);
  };
  const bool gradient = IsGradient(*node);
  tf::NodeBuilder builder(absl::StrCat(node->name(), "/TensorBow.together"),
                          gradient ? "TensorBowBatchNormGrad" : "TensorBowBatchNorm",
                          graph->op_registry());
  for (int i = 0; i < (gradient ? 5 : 3); ++i) builder.Input(input(i));
  builder.Attr("epsilon", Attribute(*node, "epsilon", 0.0001F))
      .Attr("index", index)
      .AssignedDevice(node->assigned_device_name());
  if (!gradient) {
    builder.Attr("activation_mode",
                 Attribute<std::string>(*node, "activation_mode", "Identity"));
  }
  TF_RETURN_IF_ERROR(builder.Finalize(graph, made));
  std::vector<const tf::Edge*> in(node->in_edges().begin(), node->in_edges().end());
  for (const tf::Edge* edge : in) {
    if (edge->IsControlEdge()) graph->AddControlEdge(edge->src(), *made);
  }
  std::vector<const tf::Edge*> out(node->out_edges().begin(), node->out_edges().end());
  for (const tf::Edge* edge : out) {
    tf::Node* const user = edge->dst();
    if (edge->IsControlEdge()) {
      graph->AddControlEdge(*made, user);
      continue;
    }
    // TensorFlow's kernel has one more output, which only its gradient takes. All
    // gradients are replaced by ops without that input, and the edge with them.
    if (!gradient && edge->src_output() > kSavedVariance) continue;
    TF_RETURN_IF_ERROR(
        graph->UpdateEdge(*made, edge->src_output(), user, edge->dst_input()));
  }
  return absl::OkStatus();
}

// Returns the name of the exchanged tensor.
std::string NameOfValue(const tf::Node& exchange) {
  const NodeOutput value = InputOf(exchange, 0);
  return value.node == nullptr ? exchange.name() : value.node->name();
}

}  // namespace

absl::Status ExchangeMoments(TaskGraph* task, int* num_exchanges) {
  tf::Graph* const graph = task->parts[0].graph.get();
  std::vector<tf::Node*> ordered;
  tf::GetReversePostOrder(*graph, &ordered, tf::NodeComparatorName());
  tf::Node* begin = nullptr;
  for (tf::Node* node : ordered) {
    if (node->type_string() == kBeginUpdates) begin = node;
  }
  if (begin == nullptr) return absl::InternalError("No gradients were averaged before");
  const NodeSet conditional = Conditional(*graph);
  const NodeSet late = Downstream({begin}, [](const tf::Edge&) { return true; });
  const auto replaceable = Replaceable(ordered, conditional);
  std::vector<tf::Node*> early, behind;  // exchanges; behind `begin` also of gradients
  for (tf::Node* node : ordered) {
    const bool exchanges_values = IsOp(node, {kExchange, kMeanOfAllRows, kOwnRows});
    const tf::Node* const forward = IsBatchNorm(*node)  ? node
                                    : IsGradient(*node) ? NormalisationOf(*node)
                                                        : nullptr;
    const auto known = replaceable.find(forward);
    if (!exchanges_values && known == replaceable.end()) {
      if (IsExchangeOfGradient(*node)) behind.push_back(node);
      continue;
    }
    const char* const why =
        conditional.count(node) > 0           ? " is in a conditional or a loop"
        : !exchanges_values && !known->second ? " normalises in another layout or type"
                                              : nullptr;
    if (why != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "learners cannot exchange values there: '",
          ProgramsName(exchanges_values ? NameOfValue(*node) : node->name()), "'",
          why));
    }
    (late.count(node) > 0 ? behind : early).push_back(node);
  }
  const auto number = [&](tf::Node** node) -> absl::Status {
    const int index = (*num_exchanges)++;
    if (IsOp(*node, {kExchange, kMeanOfAllRows, kOwnRows})) {
      (*node)->ClearAttr("index");
      (*node)->AddAttr("index", index);
      return absl::OkStatus();
    }
    tf::Node* const replaced = *node;
    TF_RETURN_IF_ERROR(Replace(replaced, index, graph, node));
    graph->RemoveNode(replaced);
    return absl::OkStatus();
  };
  tf::Node* last = nullptr;
  for (tf::Node* node : early) {
    TF_RETURN_IF_ERROR(number(&node));
    if (last != nullptr) graph->AddControlEdge(last, node);
    last = node;
  }
  if (last != nullptr) graph->AddControlEdge(last, begin);
  // The nodes are in topological order. Exchanges of gradients are chained already.
  last = nullptr;
  for (tf::Node* node : behind) {
    const bool of_gradient = IsExchangeOfGradient(*node);
    const bool chained = of_gradient && last != nullptr && IsExchangeOfGradient(*last);
    if (!of_gradient) TF_RETURN_IF_ERROR(number(&node));
    if (last != nullptr && !chained) graph->AddControlEdge(last, node);
    last = node;
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
