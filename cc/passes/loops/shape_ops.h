// Removal of ops on shapes, most of which reduce the gradients of broadcasts.
#ifndef TENSORBOW_CC_PASSES_LOOPS_SHAPE_OPS_H_
#define TENSORBOW_CC_PASSES_LOOPS_SHAPE_OPS_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/graph/task_graph.h"
#include "cc/passes/loops/known_values.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Follows the numbers of rows, which are not known, from op to op: two tensors that
// have the same number have equal shapes. Thread-compatible.
class ShapeOps {
 public:
  // `values`: not owned.
  explicit ShapeOps(KnownValues* values) : values_(*values) {}

  // Replaces outputs of `node` that are constants, or that equal its input. REQUIRES:
  // all nodes upstream have been visited.
  absl::Status Visit(tensorflow::Node* node);

 private:
  using Dimension = tensorflow::shape_inference::DimensionHandle;
  using Shape = std::vector<Dimension>;

  // Infers the shape of a filled tensor from that of others.
  absl::Status Fill(const tensorflow::Node& node);
  absl::Status Axes(tensorflow::Node* node);
  absl::Status Offsets(tensorflow::Node* node);
  absl::Status Slice(tensorflow::Node* node);
  void Sum(tensorflow::Node* node);
  void Reshape(tensorflow::Node* node);

  // Returns the shape of a tensor; nullopt if its rank is not known.
  std::optional<Shape> ShapeOf(const tensorflow::OutputTensor& tensor) const;
  // Returns the shape that a tensor holds; nullopt if it is not known.
  std::optional<Shape> ShapeIn(const tensorflow::OutputTensor& tensor);
  // Returns the dimension that a scalar holds; nullopt if it is not known.
  std::optional<Dimension> DimensionIn(const tensorflow::OutputTensor& tensor);

  KnownValues& values_;
};

// Applies ShapeOps to a task with gradients of broadcasts, which TensorFlow could not
// simplify without the number of rows. Returns whether there are any. REQUIRES: the
// task has one part.
absl::StatusOr<bool> SimplifyShapes(TaskGraph* task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_LOOPS_SHAPE_OPS_H_
