// The elements of tensor lists (tf.TensorArray, the stacks of loops) as plain tensors.
#ifndef TENSORBOW_CC_PASSES_LOOPS_TENSOR_LISTS_H_
#define TENSORBOW_CC_PASSES_LOOPS_TENSOR_LISTS_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/passes/loops/known_values.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Follows lists from op to op where their lengths and indices are constants. The ops
// stay in the graph for users that take a list itself. Thread-compatible.
class TensorLists {
 public:
  // `graph`, `values`: not owned.
  TensorLists(tensorflow::Graph* graph, KnownValues* values)
      : graph_(*graph), values_(*values) {}

  // Replaces a tensor that `node` takes from a list by the element. REQUIRES: all nodes
  // upstream have been visited.
  absl::Status Visit(tensorflow::Node* node);

 private:
  // A null node: an element that has not been written.
  using Elements = std::vector<tensorflow::OutputTensor>;
  using List = std::shared_ptr<const Elements>;  // null: not known
  using Rule = absl::Status (TensorLists::*)(tensorflow::Node* node);
  static const absl::flat_hash_map<absl::string_view, Rule>& Rules();

  absl::Status Empty(tensorflow::Node* node);
  absl::Status Reserve(tensorflow::Node* node);
  absl::Status FromTensor(tensorflow::Node* node);
  absl::Status PushBack(tensorflow::Node* node);
  absl::Status PopBack(tensorflow::Node* node);
  absl::Status SetItem(tensorflow::Node* node);
  absl::Status GetItem(tensorflow::Node* node);
  absl::Status Stack(tensorflow::Node* node);
  absl::Status Length(tensorflow::Node* node);
  absl::Status Sum(tensorflow::Node* node);
  absl::Status Zeros(tensorflow::Node* node);
  absl::Status PassOn(tensorflow::Node* node);

  List ListOf(const tensorflow::Node& node, int input) const;
  void Set(const tensorflow::Node& node, Elements elements);
  // Returns the first output of a new op of `inputs`, all of one type.
  absl::StatusOr<tensorflow::OutputTensor> Apply(const char* op,
                                                 const Elements& inputs);

  tensorflow::Graph& graph_;
  KnownValues& values_;
  absl::flat_hash_map<std::pair<const tensorflow::Node*, int>, List> lists_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_LOOPS_TENSOR_LISTS_H_
