// Functions of the values that learners' replicas of one variable have: their mean and
// their sum, the keys of their random generators, and how the central model sees them.
//
// All are pure but for what they write through their last argument; tensors are in host
// memory. Thread-safe.
#ifndef TENSORBOW_CC_REPLICAS_VALUES_H_
#define TENSORBOW_CC_REPLICAS_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/central_model/central_model.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

// How the central model sees a tensor: as `size` elements of `type`.
struct ModelShape {
  ElementType type;
  int64_t size;
};

// An error that says what the variable `name` can do if its type cannot be averaged.
absl::StatusOr<ModelShape> ModelShapeOf(const std::string& name,
                                        const tensorflow::Tensor& t);

// Writes a function of at least one replica, all of one type and shape, to a buffer of
// that size.
using Aggregate = void (*)(const std::vector<tensorflow::Tensor>& replicas, void*);
// The mean and the sum, added up in learner order; null where the type has none.
Aggregate MeanOf(tensorflow::DataType dtype);
Aggregate SumOf(tensorflow::DataType dtype);

// Gives `state`, a copy of a random generator's state, the key of that learner.
// Generators of different learners must differ: the last word of the state is the key
// of every algorithm TensorFlow has.
void GiveOwnKey(int learner, tensorflow::Tensor* state);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REPLICAS_VALUES_H_
