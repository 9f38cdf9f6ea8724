// A graph that grows, with the shapes and constants known of its tensors.
#ifndef TENSORBOW_CC_PASSES_LOOPS_KNOWN_VALUES_H_
#define TENSORBOW_CC_PASSES_LOOPS_KNOWN_VALUES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/graph/shape_functions.h"
#include "tensorflow/core/common_runtime/graph_runner.h"
#include "tensorflow/core/common_runtime/shape_refiner.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/graph/node_builder.h"

namespace tensorbow {

// Returns the result of an op on the counters of a loop, without a kernel; nullopt for
// other ops.
std::optional<tensorflow::Tensor> CountedBy(const std::string& op,
                                            const tensorflow::Tensor& a,
                                            const tensorflow::Tensor& b);

// Nodes stay in the graph while this exists. Thread-compatible.
class KnownValues {
 public:
  // `graph`: not owned.
  explicit KnownValues(tensorflow::Graph* graph);

  // Infers the shapes of a node's outputs, unless they are known or all are replaced.
  // REQUIRES: those of its inputs are inferred.
  absl::Status Infer(const tensorflow::Node* node);

  // Adds a node, and infers the shapes of its outputs.
  absl::StatusOr<tensorflow::Node*> Add(tensorflow::NodeBuilder& builder);
  // Returns a node with that value; equal small ones share a node.
  absl::StatusOr<tensorflow::OutputTensor> AddConstant(const tensorflow::Tensor& value);

  // Has an input of a node take a constant.
  absl::Status SetInput(tensorflow::Node* node, int input,
                        const tensorflow::Tensor& value);

  // Has later users of `tensor` take `replacement`.
  void Replace(const tensorflow::OutputTensor& tensor,
               const tensorflow::OutputTensor& replacement);
  absl::Status ReplaceByConstant(const tensorflow::OutputTensor& tensor,
                                 const tensorflow::Tensor& value);
  // Returns the tensor that users of `tensor` take.
  tensorflow::OutputTensor Current(tensorflow::OutputTensor tensor) const;
  // Returns the tensor that an input of a node takes. REQUIRES: it has the input.
  tensorflow::OutputTensor InputOf(const tensorflow::Node& node, int input) const;

  // Returns the value; nullopt if it is not constant.
  std::optional<tensorflow::Tensor> Constant(const tensorflow::OutputTensor& tensor);
  // Computes a tensor from constants and what `lookup` knows; nullopt if others are
  // needed. It may be of another graph.
  using Lookup = absl::FunctionRef<std::optional<tensorflow::Tensor>(
      const tensorflow::Node&, int)>;
  std::optional<tensorflow::Tensor> Evaluate(const tensorflow::OutputTensor& tensor,
                                             Lookup lookup);
  // Returns the integer; nullopt unless `tensor` is a constant scalar of type int32.
  std::optional<int> Integer(const tensorflow::OutputTensor& tensor);
  // Returns the shapes of a node; null if they have not been inferred.
  tensorflow::shape_inference::InferenceContext* Context(
      const tensorflow::Node& node) const {
    return refiner_.GetContext(&node);
  }
  // Returns the size of the first dimension; nullopt if it is not known.
  std::optional<int64_t> Rows(const tensorflow::OutputTensor& tensor) const;
  // Returns the rank; nullopt if it is not known.
  std::optional<int> Rank(const tensorflow::OutputTensor& tensor) const;
  bool IsScalar(const tensorflow::OutputTensor& tensor) const {
    return Rank(tensor) == 0;
  }

 private:
  using Key = std::pair<const tensorflow::Node*, int>;

  tensorflow::Graph* const graph_;
  const ShapeFunctions ops_;
  tensorflow::ShapeRefiner refiner_;
  tensorflow::GraphRunner runner_;
  absl::flat_hash_map<Key, tensorflow::OutputTensor> replaced_;
  absl::flat_hash_map<Key, std::optional<tensorflow::Tensor>> constants_;
  absl::flat_hash_map<std::string, tensorflow::OutputTensor> added_;  // by value
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_LOOPS_KNOWN_VALUES_H_
