// The types in which replicas store elements, and the types of their arithmetic.
#ifndef TENSORBOW_CC_SUPPORT_ELEMENT_H_
#define TENSORBOW_CC_SUPPORT_ELEMENT_H_

#include <cstdint>

#include "cc/support/float16.h"

namespace tensorbow {

// The type of a variable's elements in a replica.
enum class ElementType { kFloat32, kFloat64, kFloat16, kBfloat16 };

// The type of the arithmetic on elements stored as S.
template <typename S>
struct AccumulatorOf {
  using type = float;
};
template <>
struct AccumulatorOf<double> {
  using type = double;
};
template <typename S>
using Accumulator = typename AccumulatorOf<S>::type;

// Calls f(static_cast<S*>(nullptr)), S being the storage type of `type`.
template <typename F>
decltype(auto) WithStorageType(ElementType type, F f) {
  switch (type) {
    case ElementType::kFloat64:
      return f(static_cast<double*>(nullptr));
    case ElementType::kFloat16:
      return f(static_cast<Half*>(nullptr));
    case ElementType::kBfloat16:
      return f(static_cast<Bfloat16*>(nullptr));
    case ElementType::kFloat32:
      break;
  }
  return f(static_cast<float*>(nullptr));
}

inline int64_t ElementSizeBytes(ElementType type) {
  return WithStorageType(type, [](auto* s) { return int64_t{sizeof *s}; });
}

inline int64_t AccumulatorSizeBytes(ElementType type) {
  return type == ElementType::kFloat64 ? 8 : 4;
}

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SUPPORT_ELEMENT_H_
