// The mean of several learners' arrays, summed in learner order and in the accumulation
// type. Pure functions.
#ifndef TENSORBOW_CC_ARITHMETIC_MEAN_H_
#define TENSORBOW_CC_ARITHMETIC_MEAN_H_

#include <cstdint>

#include "cc/support/element.h"

namespace tensorbow {

// mean = Σ_j values[j] / count, j in order; n elements each.
void Mean(const float* const* values, int count, int64_t n, float* mean);
void Mean(const double* const* values, int count, int64_t n, double* mean);
void Mean(const Half* const* values, int count, int64_t n, Half* mean);
void Mean(const Bfloat16* const* values, int count, int64_t n, Bfloat16* mean);

// mean = Σ_j shares[j] · values[j] / count, j in order.
void Mean(const float* const* values, const double* shares, int count, int64_t n,
          float* mean);
void Mean(const double* const* values, const double* shares, int count, int64_t n,
          double* mean);
void Mean(const Half* const* values, const double* shares, int count, int64_t n,
          Half* mean);
void Mean(const Bfloat16* const* values, const double* shares, int count, int64_t n,
          Bfloat16* mean);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_MEAN_H_
