// From gradients by all rows and by each shard of them to whether rows may be divided.
// Pure functions of their inner products.
#ifndef TENSORBOW_CC_TRAINING_DIVISION_JUDGEMENT_H_
#define TENSORBOW_CC_TRAINING_DIVISION_JUDGEMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tensorflow/core/framework/types.h"

namespace tensorbow {

// How far a weighted mean over the batch may be from the mean of the shards. Measured
// (tests/python/proof_test.py): means over the unmasked, 60 % of the rows, in shards of
// 8 rows have cosines from 0.90 on and lengths up to 1.16.
constexpr double kLeastCosine = 0.8;
constexpr double kLengthTolerance = 0.33;

// How far values may differ that are the same but for rounding: relative, by dtype.
// Sums over rows are taken in another order, through some dozens of layers.
double Rounding(tensorflow::DataType dtype);

// The inner products of one gradient's values: by all rows first, then by each shard,
// and last, where it has been evaluated, by the first shard's rows, each given twice.
using Products = std::vector<std::vector<double>>;

struct GradientProducts {
  std::string variable;  // a variable may have several gradients: the best one counts
  tensorflow::DataType dtype = tensorflow::DT_FLOAT;
  Products products;
};

struct Judgement {
  enum class Kind { kUnproven, kSound, kNearlySound, kBatchMoments, kNotSound };
  Kind kind = Kind::kUnproven;
  std::string why;
  // The rows given twice have to be evaluated before anything can be said.
  bool needs_twice = false;
  // Gradients whose shards' values add up to the whole's.
  std::vector<int> sums;
  // Of a nearly sound division: by shard, with which all gradients are a mean.
  std::vector<double> weights;
  // Nothing was too small to be told.
  bool determined = false;
  // The norm of the greatest gradient by all rows.
  double greatest = 0;
};

// Gradients that are so much smaller than others say nothing: they may be what rounding
// leaves of zero.
inline constexpr double kNegligible = 1e-4;

// `rows`: of the shards. `batch_moments`: rows are normalised by moments of their
// batch.
Judgement JudgeDivision(const std::vector<GradientProducts>& gradients,
                        const std::vector<int64_t>& rows, bool batch_moments);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINING_DIVISION_JUDGEMENT_H_
