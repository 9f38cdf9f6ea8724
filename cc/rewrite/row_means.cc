#include "cc/rewrite/row_means.h"

#include <utility>
#include <vector>

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using NameSet = absl::flat_hash_set<absl::string_view>;

// Of what has no rows, by place: linear, or what keeps a value within bounds. They take
// all their inputs, or the first.
bool PassesOn(absl::string_view op) {
  static const auto* const ops =
      new NameSet({"Abs", "Add", "AddN", "AddV2", "Cast", "CheckNumerics", "ConcatV2",
                   "Identity", "Maximum", "Minimum", "Mul", "MulNoNan", "Neg", "Pack",
                   "Select", "SelectV2", "Snapshot", "StopGradient", "Sub"});
  return ops->contains(op);
}

bool PassesFirstOn(absl::string_view op) {
  static const auto* const ops =
      new NameSet({"ClipByValue", "Div", "DivNoNan", "ExpandDims", "RealDiv", "Reshape",
                   "Squeeze", "Transpose", "Xdivy"});
  return ops->contains(op);
}

bool IsNoMean(absl::string_view op) {
  static const auto* const ops =
      new NameSet({"All",    "Any",           "ArgMax",
                   "ArgMin", "EuclideanNorm", "Exp",
                   "Expm1",  "Inv",           "Log",
                   "Log1p",  "Max",           "Min",
                   "Pow",    "Prod",          "Reciprocal",
                   "Rsqrt",  "Sigmoid",       "Softplus",
                   "Sqrt",   "Square",        "SquaredDifference",
                   "Tanh",   "TopKV2"});
  return ops->contains(op);
}

}  // namespace

bool CanBeMeanOfRows(const ProgramGraph& graph, const std::string& tensor,
                     const absl::flat_hash_set<std::string>& dependent) {
  absl::flat_hash_set<std::string> seen;
  std::vector<std::string> open = {std::string(ParseTensor(tensor).node)};
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    const tf::NodeDef* const node = graph.Find(name);
    if (node == nullptr || !dependent.contains(name) || !seen.insert(name).second) {
      continue;
    }
    if (IsNoMean(node->op())) return false;
    const bool first = PassesFirstOn(node->op());
    if (!first && !PassesOn(node->op())) continue;
    int factors = 0;
    for (int i = 0; i < (first ? 1 : node->input_size()); ++i) {
      const TensorName input = ParseTensor(node->input(i));
      if (input.control) continue;
      factors += dependent.contains(std::string(input.node));
      open.emplace_back(input.node);
    }
    if (factors > 1 && (node->op() == "Mul" || node->op() == "MulNoNan")) return false;
  }
  return true;
}

}  // namespace tensorbow
