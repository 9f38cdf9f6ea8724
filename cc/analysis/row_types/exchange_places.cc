// The tensors at which learners exchange partial values: as early as they are smallest.
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "cc/analysis/row_types/type_flow.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns whether exchanging the op's first input equals exchanging its result.
bool LetsExchangesPass(absl::string_view op) {
  static const auto* const ops = new absl::flat_hash_set<absl::string_view>(
      {"CheckNumerics", "EnsureShape", "Enter", "ExpandDims", "Identity", "LoopCond",
       "PreventGradient", "RefSwitch", "Reshape", "Snapshot", "Squeeze", "StopGradient",
       "Switch"});
  return ops->contains(op);
}

bool IsLinearInSum(absl::string_view op) {
  static const auto* const ops = new absl::flat_hash_set<absl::string_view>(
      {"Add", "AddV2", "Div", "DivNoNan", "Mul", "RealDiv", "Sub"});
  return ops->contains(op);
}

}  // namespace

void TypeFlow::Exchange(const Frame& frame, const TypedGraph::Tensor& tensor,
                        RowKind kind) {
  const TypedGraph::Tensor at = Hoisted(frame, tensor, kind);
  if (frame.caller == nullptr || !at.node->IsArg()) {
    exchanged_.insert(NameOf(frame, at));
    return;
  }
  const auto& arguments = frame.graph->arguments;
  const auto argument = std::find(arguments.begin(), arguments.end(), at.node);
  const auto input = frame.first_argument + (argument - arguments.begin());
  Exchange(*frame.caller, frame.caller->graph->inputs[frame.call->id()][input], kind);
}

TypedGraph::Tensor TypeFlow::Hoisted(const Frame& frame,
                                     const TypedGraph::Tensor& tensor,
                                     RowKind kind) const {
  TypedGraph::Tensor at = tensor;
  while (true) {
    const tf::Node* const node = at.node;
    const auto& inputs = frame.graph->inputs[node->id()];
    const auto kind_of = [&](const TypedGraph::Tensor& input) {
      if (!input.node->IsOp()) return RowKind::kUntyped;
      const RowType& type = frame.types[input.node->id()][input.index];
      return type.partial() && IsExchanged(frame, input) ? RowKind::kSame : type.kind;
    };
    int only = -1;
    const absl::string_view op = node->type_string();
    if (LetsExchangesPass(op) ||
        (kind == RowKind::kSum && (op == "Neg" || op == "Cast"))) {
      only = 0;
    } else if (kind == RowKind::kSum && IsLinearInSum(op)) {
      int sums = 0;
      bool others = true;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const RowKind input = kind_of(inputs[i]);
        if (input == RowKind::kSum) {
          ++sums;
          only = static_cast<int>(i);
        } else {
          others &= input == RowKind::kSame || input == RowKind::kZero;
        }
      }
      if (sums != 1 || !others) only = -1;
    }
    if (only < 0 || kind_of(inputs[only]) != kind || IsExchanged(frame, inputs[only])) {
      return at;
    }
    at = inputs[only];
  }
}

}  // namespace tensorbow
