// Ops that compute each element of their output from the inputs' of the same place.
// Told by the op's name alone. Pure function.
#ifndef TENSORBOW_CC_REWRITE_ELEMENTWISE_H_
#define TENSORBOW_CC_REWRITE_ELEMENTWISE_H_

#include "absl/strings/string_view.h"

namespace tensorbow {

enum class Elementwise {
  kNo,
  kLinear,     // of one input
  kSum,        // of inputs, or a difference
  kProduct,    // or a quotient
  kSelection,  // by the first input, of the others
  kBound,      // an absolute value, a larger or smaller one
  kOther,
};
Elementwise ElementwiseOf(absl::string_view op);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REWRITE_ELEMENTWISE_H_
