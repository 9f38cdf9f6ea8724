// Batch normalisation in parts, so that several learners can normalise by the moments
// of all their rows. Rows have `columns` float32 numbers, channels last; each column is
// normalised by itself. Sums are in float64, except within blocks of rows. No
// TensorFlow. Source: Ioffe and Szegedy, Batch Normalization, 2015.
#ifndef TENSORBOW_CC_ARITHMETIC_BATCH_MOMENTS_H_
#define TENSORBOW_CC_ARITHMETIC_BATCH_MOMENTS_H_

#include <cstdint>
#include <vector>

namespace tensorbow {

// The moments of some rows, by column.
struct BatchMoments {
  int64_t rows = 0;
  std::vector<double> mean;
  std::vector<double> squares;  // Σ (x − mean)²
};

BatchMoments MomentsOf(const float* x, int64_t rows, int64_t columns);

// Returns the moments of all rows from those of their parts. Chan, Golub and LeVeque,
// 1979.
BatchMoments MomentsTogether(const std::vector<const BatchMoments*>& parts);

// y ← (x − mean)·factor + offset, and not below 0 if `rectified`. By column.
void Normalise(const float* x, int64_t rows, int64_t columns, const float* mean,
               const float* factor, const float* offset, bool rectified, float* y);

// The sums that the gradient of normalised rows needs, by column.
struct GradientSums {
  int64_t rows = 0;
  std::vector<double> values;    // Σ dy
  std::vector<double> products;  // Σ dy·(x − mean)
};

GradientSums GradientSumsOf(const float* dy, const float* x, int64_t rows,
                            int64_t columns, const float* mean);

// dx ← factor·(dy − by_value − by_distance·(x − mean)). By column.
void NormaliseGradient(const float* dy, const float* x, int64_t rows, int64_t columns,
                       const float* mean, const float* factor, const float* by_value,
                       const float* by_distance, float* dx);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_BATCH_MOMENTS_H_
