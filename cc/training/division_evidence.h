// What evaluations of a run with all rows, and with each shard of them, have in common.
// Pure functions of the values.
#ifndef TENSORBOW_CC_TRAINING_DIVISION_EVIDENCE_H_
#define TENSORBOW_CC_TRAINING_DIVISION_EVIDENCE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cc/config/options.h"
#include "cc/training/division_judgement.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

// The inner products of values of equal shapes.
Products InnerProducts(const std::vector<tensorflow::Tensor>& values);

// `value` − `now`, of float32 or float64; nothing where that cannot be said.
std::optional<tensorflow::Tensor> Change(const tensorflow::Tensor& value,
                                         const tensorflow::Tensor& now);

// REQUIRES: `values` are float32 or float64.
tensorflow::Tensor Times(double factor, const tensorflow::Tensor& values);

// A fixed linear function of the values of a floating-point tensor, float64, that keeps
// inner products to about 0.5 % of the lengths (a count sketch: Charikar, Chen,
// Farach-Colton 2002): what several evaluations have in common can be told without
// keeping large gradients of each. A tensor that is not larger than a sketch, or not of
// real floating-point numbers, is its own.
tensorflow::Tensor Sketched(const tensorflow::Tensor& values);

// A sparse gradient, added up over equal indices, dense in the rows that any of
// `indices` names: one tensor for each of them, float64.
std::vector<tensorflow::Tensor> Densified(
    const std::vector<tensorflow::Tensor>& values,
    const std::vector<tensorflow::Tensor>& indices);

// How the shards' values of a fetch become the whole's.
struct FetchEvidence {
  // The first of concatenation, mean, sum and first that gives the whole's value.
  std::optional<Combination> rule;
  // No other rule gives it, too (as all do for zeros).
  bool determined = false;
};

// `depends`: whether the fetch depends on what is divided.
FetchEvidence CompareFetch(const tensorflow::Tensor& whole,
                           const std::vector<tensorflow::Tensor>& shards,
                           const std::vector<int64_t>& rows, bool depends);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINING_DIVISION_EVIDENCE_H_
