// The loops of element programs (element_program.h), one for each operation and type.
#ifndef TENSORBOW_CC_ARITHMETIC_ELEMENT_LOOPS_H_
#define TENSORBOW_CC_ARITHMETIC_ELEMENT_LOOPS_H_

#include <cstdint>

#include "cc/arithmetic/element_program.h"
#include "cc/support/element.h"

namespace tensorbow {

// The arguments that are arrays; the other argument, if any, is a scalar.
enum class ElementArguments { kArrays, kArrayScalar, kScalarArray };

// Computes `n` elements. `out` may be an argument; otherwise no arrays overlap. An
// operation of one argument does not read `b`.
void ComputeElements(ElementOp op, ElementArguments arguments, const float* a,
                     const float* b, int64_t n, float* out);
void ComputeElements(ElementOp op, ElementArguments arguments, const double* a,
                     const double* b, int64_t n, double* out);
void ComputeElements(ElementOp op, ElementArguments arguments, const Half* a,
                     const Half* b, int64_t n, Half* out);
void ComputeElements(ElementOp op, ElementArguments arguments, const Bfloat16* a,
                     const Bfloat16* b, int64_t n, Bfloat16* out);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_ELEMENT_LOOPS_H_
