#include "cc/rewrite/row_means.h"

#include <utility>
#include <vector>

#include "cc/rewrite/elementwise.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Which inputs a value without rows is a mean or a sum of rows with.
enum class Inputs { kNone, kFirst, kAll, kNotAMean };

Inputs InputsOf(absl::string_view op) {
  using NameSet = absl::flat_hash_set<absl::string_view>;
  static const auto* const curves = new NameSet(
      {"Expm1", "Log1p", "Sigmoid", "Softplus", "SquaredDifference", "Tanh"});
  static const auto* const extremes =
      new NameSet({"All", "Any", "ArgMax", "ArgMin", "EuclideanNorm", "Max", "Min",
                   "Prod", "TopKV2"});
  static const auto* const forms =
      new NameSet({"ExpandDims", "Reshape", "Squeeze", "Transpose"});
  if (curves->contains(op) || extremes->contains(op)) return Inputs::kNotAMean;
  if (forms->contains(op)) return Inputs::kFirst;
  if (op == "Pack" || op == "ConcatV2") return Inputs::kAll;
  switch (ElementwiseOf(op)) {
    case Elementwise::kNo:
      return Inputs::kNone;  // what has rows follows, or what is not known
    case Elementwise::kProduct:
      // A denominator may depend on rows: learners exchange what they divide by.
      return op == "Mul" || op == "MulNoNan" ? Inputs::kAll : Inputs::kFirst;
    case Elementwise::kOther:
      return Inputs::kNotAMean;
    default:
      return Inputs::kAll;
  }
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
    const Inputs inputs = InputsOf(node->op());
    if (inputs == Inputs::kNotAMean) return false;
    if (inputs == Inputs::kNone) continue;
    int factors = 0;
    for (int i = 0; i < (inputs == Inputs::kFirst ? 1 : node->input_size()); ++i) {
      const TensorName input = ParseTensor(node->input(i));
      if (input.control) continue;
      factors += dependent.contains(std::string(input.node));
      open.emplace_back(input.node);
    }
    if (factors > 1 && ElementwiseOf(node->op()) == Elementwise::kProduct) return false;
  }
  return true;
}

}  // namespace tensorbow
