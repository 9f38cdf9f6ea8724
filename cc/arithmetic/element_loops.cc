#include "cc/arithmetic/element_loops.h"

#include <cmath>

#include "cc/support/vectorise.h"

namespace tensorbow {
namespace {

// The operations on one element, in the accumulation type.
template <typename A>
struct Operations {
  static A Identity(A a, A) { return a; }
  static A Neg(A a, A) { return -a; }
  static A Abs(A a, A) { return std::abs(a); }
  static A Sign(A a, A) { return a > 0 ? A(1) : a < 0 ? A(-1) : a; }
  static A Square(A a, A) { return a * a; }
  static A Sqrt(A a, A) { return std::sqrt(a); }
  static A Rsqrt(A a, A) { return A(1) / std::sqrt(a); }
  static A Reciprocal(A a, A) { return A(1) / a; }
  static A Exp(A a, A) { return std::exp(a); }
  static A Log(A a, A) { return std::log(a); }
  static A Add(A a, A b) { return a + b; }
  static A Sub(A a, A b) { return a - b; }
  static A Mul(A a, A b) { return a * b; }
  static A Div(A a, A b) { return a / b; }
  static A DivNoNan(A a, A b) { return b == 0 ? A(0) : a / b; }
  static A Maximum(A a, A b) { return a < b ? b : a; }
  static A Minimum(A a, A b) { return b < a ? b : a; }
  static A Pow(A a, A b) { return std::pow(a, b); }
  static A SquaredDifference(A a, A b) { return (a - b) * (a - b); }
};

// Computes each element from the same element of the arguments: `out` may be one of
// them.
template <auto operation, typename T, typename A = Accumulator<T>>
TENSORBOW_INLINE void Compute(ElementArguments arguments, const T* a, const T* b,
                              int64_t n, T* out) {
  switch (arguments) {
    case ElementArguments::kArrays:
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) {
        out[i] = static_cast<T>(operation(static_cast<A>(a[i]), static_cast<A>(b[i])));
      }
      return;
    case ElementArguments::kArrayScalar: {
      const A scalar = static_cast<A>(*b);
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) {
        out[i] = static_cast<T>(operation(static_cast<A>(a[i]), scalar));
      }
      return;
    }
    case ElementArguments::kScalarArray: {
      const A scalar = static_cast<A>(*a);
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) {
        out[i] = static_cast<T>(operation(scalar, static_cast<A>(b[i])));
      }
      return;
    }
  }
}

#define TENSORBOW_ELEMENT_OPS(X) \
  X(Identity)                    \
  X(Neg)                         \
  X(Abs)                         \
  X(Sign)                        \
  X(Square)                      \
  X(Sqrt)                        \
  X(Rsqrt)                       \
  X(Reciprocal)                  \
  X(Exp)                         \
  X(Log)                         \
  X(Add)                         \
  X(Sub)                         \
  X(Mul)                         \
  X(Div)                         \
  X(DivNoNan)                    \
  X(Maximum)                     \
  X(Minimum)                     \
  X(Pow)                         \
  X(SquaredDifference)

// Loops over 16-bit numbers are not vectorised: they convert each one, so it gains
// little.
#define TENSORBOW_LOOP(Name, T, VECTORISED)                                 \
  VECTORISED static void Name##_##T(ElementArguments arguments, const T* a, \
                                    const T* b, int64_t n, T* out) {        \
    Compute<&Operations<Accumulator<T>>::Name>(arguments, a, b, n, out);    \
  }
#define TENSORBOW_FLOAT_LOOP(Name) TENSORBOW_LOOP(Name, float, TENSORBOW_VECTORISED)
#define TENSORBOW_DOUBLE_LOOP(Name) TENSORBOW_LOOP(Name, double, TENSORBOW_VECTORISED)
#define TENSORBOW_HALF_LOOP(Name) TENSORBOW_LOOP(Name, Half, )
#define TENSORBOW_BFLOAT16_LOOP(Name) TENSORBOW_LOOP(Name, Bfloat16, )
TENSORBOW_ELEMENT_OPS(TENSORBOW_FLOAT_LOOP)
TENSORBOW_ELEMENT_OPS(TENSORBOW_DOUBLE_LOOP)
TENSORBOW_ELEMENT_OPS(TENSORBOW_HALF_LOOP)
TENSORBOW_ELEMENT_OPS(TENSORBOW_BFLOAT16_LOOP)

}  // namespace

#define TENSORBOW_CASE_OF(Name, T) \
  case ElementOp::k##Name:         \
    return Name##_##T(arguments, a, b, n, out);
#define TENSORBOW_FLOAT_CASE(Name) TENSORBOW_CASE_OF(Name, float)
#define TENSORBOW_DOUBLE_CASE(Name) TENSORBOW_CASE_OF(Name, double)
#define TENSORBOW_HALF_CASE(Name) TENSORBOW_CASE_OF(Name, Half)
#define TENSORBOW_BFLOAT16_CASE(Name) TENSORBOW_CASE_OF(Name, Bfloat16)
#define TENSORBOW_COMPUTE(T, CASE)                                           \
  void ComputeElements(ElementOp op, ElementArguments arguments, const T* a, \
                       const T* b, int64_t n, T* out) {                      \
    switch (op) { TENSORBOW_ELEMENT_OPS(CASE) }                              \
  }
TENSORBOW_COMPUTE(float, TENSORBOW_FLOAT_CASE)
TENSORBOW_COMPUTE(double, TENSORBOW_DOUBLE_CASE)
TENSORBOW_COMPUTE(Half, TENSORBOW_HALF_CASE)
TENSORBOW_COMPUTE(Bfloat16, TENSORBOW_BFLOAT16_CASE)

}  // namespace tensorbow
