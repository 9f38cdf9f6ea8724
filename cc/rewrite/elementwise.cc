#include "cc/rewrite/elementwise.h"

#include "absl/container/flat_hash_map.h"

namespace tensorbow {

Elementwise ElementwiseOf(absl::string_view op) {
  static const auto* const ops =
      new absl::flat_hash_map<absl::string_view, Elementwise>({
          {"Abs", Elementwise::kBound},
          {"Add", Elementwise::kSum},
          {"AddN", Elementwise::kSum},
          {"AddV2", Elementwise::kSum},
          {"Cast", Elementwise::kLinear},
          {"CheckNumerics", Elementwise::kLinear},
          {"ClipByValue", Elementwise::kBound},
          {"Div", Elementwise::kProduct},
          {"DivNoNan", Elementwise::kProduct},
          {"Exp", Elementwise::kOther},
          {"Identity", Elementwise::kLinear},
          {"Inv", Elementwise::kOther},
          {"Log", Elementwise::kOther},
          {"Maximum", Elementwise::kBound},
          {"Minimum", Elementwise::kBound},
          {"Mul", Elementwise::kProduct},
          {"MulNoNan", Elementwise::kProduct},
          {"Neg", Elementwise::kLinear},
          {"Pow", Elementwise::kOther},
          {"PreventGradient", Elementwise::kLinear},
          {"RealDiv", Elementwise::kProduct},
          {"Reciprocal", Elementwise::kOther},
          {"Rsqrt", Elementwise::kOther},
          {"Select", Elementwise::kSelection},
          {"SelectV2", Elementwise::kSelection},
          {"Sign", Elementwise::kOther},
          {"Snapshot", Elementwise::kLinear},
          {"Sqrt", Elementwise::kOther},
          {"Square", Elementwise::kOther},
          {"StopGradient", Elementwise::kLinear},
          {"Sub", Elementwise::kSum},
          {"TensorBowReduceGradient", Elementwise::kLinear},
          {"Xdivy", Elementwise::kProduct},
      });
  const auto found = ops->find(op);
  return found == ops->end() ? Elementwise::kNo : found->second;
}

}  // namespace tensorbow
