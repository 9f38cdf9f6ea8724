#include "cc/arithmetic/batch_moments.h"

#include <algorithm>

#include "cc/support/vectorise.h"

namespace tensorbow {
namespace {

constexpr int64_t kBlockRows = 64;  // rows that stay in the first-level cache
constexpr int kTile = 16;           // columns whose sums stay in registers

// Adds `term(row, column)` to the sum of its column, for some rows and columns.
template <typename Term>
TENSORBOW_INLINE void AddTile(int64_t begin, int64_t end, int columns, Term term,
                              double* sum) {
  float part[kTile] = {};
  if (columns == kTile) {
    for (int64_t row = begin; row < end; ++row) {
      for (int k = 0; k < kTile; ++k) part[k] += term(row, k);
    }
  } else {
    for (int64_t row = begin; row < end; ++row) {
      for (int k = 0; k < columns; ++k) part[k] += term(row, k);
    }
  }
  for (int k = 0; k < columns; ++k) sum[k] += static_cast<double>(part[k]);
}

TENSORBOW_VECTORISED void AddRows(const float* x, int64_t rows, int64_t columns,
                                  double* sum) {
  for (int64_t begin = 0; begin < rows; begin += kBlockRows) {
    const int64_t end = std::min(rows, begin + kBlockRows);
    for (int64_t c = 0; c < columns; c += kTile) {
      const float* const from = x + c;
      AddTile(
          begin, end, static_cast<int>(std::min<int64_t>(kTile, columns - c)),
          [from, columns](int64_t row, int k) { return from[row * columns + k]; },
          sum + c);
    }
  }
}

TENSORBOW_VECTORISED void AddSquares(const float* x, int64_t rows, int64_t columns,
                                     const float* mean, double* sum) {
  for (int64_t begin = 0; begin < rows; begin += kBlockRows) {
    const int64_t end = std::min(rows, begin + kBlockRows);
    for (int64_t c = 0; c < columns; c += kTile) {
      const float* const from = x + c;
      const float* const centre = mean + c;
      AddTile(
          begin, end, static_cast<int>(std::min<int64_t>(kTile, columns - c)),
          [from, centre, columns](int64_t row, int k) {
            const float distance = from[row * columns + k] - centre[k];
            return distance * distance;
          },
          sum + c);
    }
  }
}

TENSORBOW_VECTORISED void AddProducts(const float* dy, const float* x, int64_t rows,
                                      int64_t columns, const float* mean,
                                      double* values, double* products) {
  for (int64_t begin = 0; begin < rows; begin += kBlockRows) {
    const int64_t end = std::min(rows, begin + kBlockRows);
    for (int64_t c = 0; c < columns; c += kTile) {
      const int width = static_cast<int>(std::min<int64_t>(kTile, columns - c));
      const float* const from = x + c;
      const float* const gradient = dy + c;
      const float* const centre = mean + c;
      AddTile(
          begin, end, width,
          [gradient, columns](int64_t row, int k) {
            return gradient[row * columns + k];
          },
          values + c);
      AddTile(
          begin, end, width,
          [gradient, from, centre, columns](int64_t row, int k) {
            return gradient[row * columns + k] * (from[row * columns + k] - centre[k]);
          },
          products + c);
    }
  }
}

template <bool kRectified>
TENSORBOW_INLINE void NormaliseRows(const float* x, int64_t rows, int64_t columns,
                                    const float* mean, const float* factor,
                                    const float* offset, float* y) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* const from = x + row * columns;
    float* const to = y + row * columns;
    for (int64_t c = 0; c < columns; ++c) {
      const float value = (from[c] - mean[c]) * factor[c] + offset[c];
      // A NaN stays one: it is not below 0.
      to[c] = kRectified && value < 0 ? 0 : value;
    }
  }
}

TENSORBOW_VECTORISED void NormaliseAll(const float* x, int64_t rows, int64_t columns,
                                       const float* mean, const float* factor,
                                       const float* offset, bool rectified, float* y) {
  if (rectified) {
    NormaliseRows<true>(x, rows, columns, mean, factor, offset, y);
  } else {
    NormaliseRows<false>(x, rows, columns, mean, factor, offset, y);
  }
}

TENSORBOW_VECTORISED void GradientOfAll(const float* dy, const float* x, int64_t rows,
                                        int64_t columns, const float* mean,
                                        const float* factor, const float* by_value,
                                        const float* by_distance, float* dx) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* const gradient = dy + row * columns;
    const float* const from = x + row * columns;
    float* const to = dx + row * columns;
    for (int64_t c = 0; c < columns; ++c) {
      to[c] = factor[c] *
              (gradient[c] - by_value[c] - by_distance[c] * (from[c] - mean[c]));
    }
  }
}

}  // namespace

BatchMoments MomentsOf(const float* x, int64_t rows, int64_t columns) {
  BatchMoments moments{rows, std::vector<double>(columns),
                       std::vector<double>(columns)};
  if (rows == 0) return moments;
  AddRows(x, rows, columns, moments.mean.data());
  std::vector<float> centre(columns);
  for (int64_t c = 0; c < columns; ++c) {
    // Distances are measured from a float; mean itself is a double.
    centre[c] = static_cast<float>(moments.mean[c] / static_cast<double>(rows));
    moments.mean[c] /= static_cast<double>(rows);
  }
  AddSquares(x, rows, columns, centre.data(), moments.squares.data());
  for (int64_t c = 0; c < columns; ++c) {
    const double off = moments.mean[c] - static_cast<double>(centre[c]);
    moments.squares[c] -= static_cast<double>(rows) * off * off;
    moments.squares[c] = std::max(moments.squares[c], 0.0);
  }
  return moments;
}

BatchMoments MomentsTogether(const std::vector<const BatchMoments*>& parts) {
  const size_t columns = parts.front()->mean.size();
  BatchMoments all{0, std::vector<double>(columns), std::vector<double>(columns)};
  for (const BatchMoments* part : parts) all.rows += part->rows;
  for (size_t c = 0; c < columns; ++c) {
    double sum = 0;
    for (const BatchMoments* part : parts) {
      sum += static_cast<double>(part->rows) * part->mean[c];
    }
    all.mean[c] = all.rows > 0 ? sum / static_cast<double>(all.rows) : 0;
    for (const BatchMoments* part : parts) {
      const double distance = part->mean[c] - all.mean[c];
      all.squares[c] +=
          part->squares[c] + static_cast<double>(part->rows) * distance * distance;
    }
  }
  return all;
}

void Normalise(const float* x, int64_t rows, int64_t columns, const float* mean,
               const float* factor, const float* offset, bool rectified, float* y) {
  NormaliseAll(x, rows, columns, mean, factor, offset, rectified, y);
}

GradientSums GradientSumsOf(const float* dy, const float* x, int64_t rows,
                            int64_t columns, const float* mean) {
  GradientSums sums{rows, std::vector<double>(columns), std::vector<double>(columns)};
  AddProducts(dy, x, rows, columns, mean, sums.values.data(), sums.products.data());
  return sums;
}

void NormaliseGradient(const float* dy, const float* x, int64_t rows, int64_t columns,
                       const float* mean, const float* factor, const float* by_value,
                       const float* by_distance, float* dx) {
  GradientOfAll(dy, x, rows, columns, mean, factor, by_value, by_distance, dx);
}

}  // namespace tensorbow
