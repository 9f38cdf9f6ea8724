#include "cc/analysis/row_types/number_arithmetic.h"

#include <algorithm>

namespace tensorbow {

namespace {

int64_t FloorDiv(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

// Returns the larger of a polynomial and a number that is its lower bound.
Size Larger(const SizeTable& sizes, Size a, Size b) {
  const bool first = sizes.Number(a).has_value();
  const Size small = first ? a : b, large = first ? b : a;
  int64_t least = 0;
  for (const auto& [powers, coefficient] : sizes.Terms(large)) {
    if (coefficient < 0) return kUnknownSize;
    least += coefficient;
  }
  const std::optional<int64_t> number = sizes.Number(small);
  return number.has_value() && *number <= least ? large : kUnknownSize;
}

}  // namespace

Size Arithmetic(SizeTable& sizes, absl::string_view op, Size a, Size b) {
  if (!a.known() || !b.known()) return kUnknownSize;
  if (op == "Add" || op == "AddV2") return sizes.Plus(a, b);
  if (op == "Sub") return sizes.Minus(a, b);
  if (op == "Mul") return sizes.Times(a, b);
  const std::optional<int64_t> x = sizes.Number(a), y = sizes.Number(b);
  const bool both = x.has_value() && y.has_value();
  if (op == "Maximum" || op == "Minimum") {
    if (both)
      return sizes.Constant(op == "Maximum" ? std::max(*x, *y) : std::min(*x, *y));
    if (a == b) return a;
    return op == "Maximum" ? Larger(sizes, a, b) : kUnknownSize;
  }
  if (b == kZeroSize) return kUnknownSize;
  if (op == "FloorMod") {
    if (both) return sizes.Constant(*x - FloorDiv(*x, *y) * *y);
    return sizes.Over(a, b).known() ? kZeroSize : kUnknownSize;
  }
  if (both && op == "FloorDiv") return sizes.Constant(FloorDiv(*x, *y));
  if (both && op == "TruncateDiv") return sizes.Constant(*x / *y);
  return sizes.Over(a, b);
}

bool IsArithmetic(absl::string_view op) {
  for (absl::string_view name :
       {"Add", "AddV2", "Sub", "Mul", "FloorDiv", "RealDiv", "Maximum", "Minimum",
        "Div", "TruncateDiv", "FloorMod"}) {
    if (op == name) return true;
  }
  return false;
}

std::optional<bool> Compare(absl::string_view op, int64_t a, int64_t b) {
  if (op == "Equal") return a == b;
  if (op == "NotEqual") return a != b;
  if (op == "Greater") return a > b;
  if (op == "GreaterEqual") return a >= b;
  if (op == "Less") return a < b;
  if (op == "LessEqual") return a <= b;
  return std::nullopt;
}

}  // namespace tensorbow
