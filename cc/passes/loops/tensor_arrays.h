// The elements of TensorFlow 1's tensor arrays and of the stacks of its loops.
#ifndef TENSORBOW_CC_PASSES_LOOPS_TENSOR_ARRAYS_H_
#define TENSORBOW_CC_PASSES_LOOPS_TENSOR_ARRAYS_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cc/passes/loops/known_values.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Returns whether the op uses an array or a stack whose elements can be followed.
bool UsesArray(absl::string_view op);

// Follows the elements of arrays along their flows, which order reads after writes, and
// those of stacks in the order of visits. Thread-compatible.
class TensorArrays {
 public:
  // `graph`, `values`: not owned.
  TensorArrays(tensorflow::Graph* graph, KnownValues* values)
      : graph_(*graph), values_(*values) {}

  // Replaces a tensor that `node` takes from an array or a stack by the element.
  // REQUIRES: all nodes upstream have been visited. Error: a stack is empty.
  absl::Status Visit(tensorflow::Node* node);

 private:
  using Tensors = std::vector<tensorflow::OutputTensor>;
  using Key = std::pair<const tensorflow::Node*, int>;

  // An array, or the gradient of one.
  struct Array {
    std::optional<int> forward;            // the array whose gradient this is
    bool grows = false;                    // by writes behind its end
    Tensors written;                       // by place; a null node: not yet
    std::map<std::string, int> gradients;  // by source
  };
  struct Write {
    const tensorflow::Node* op;
    tensorflow::OutputTensor value;
  };
  // The writes upstream of a flow.
  struct Flow {
    int array = -1;                            // none: nothing has been written
    std::vector<std::vector<Write>> elements;  // the writes to each
  };
  using Rule = absl::Status (TensorArrays::*)(tensorflow::Node* node);
  static const absl::flat_hash_map<absl::string_view, Rule>& Rules();

  absl::Status Make(tensorflow::Node* node);
  absl::Status Gradient(tensorflow::Node* node);
  absl::Status WriteOne(tensorflow::Node* node);
  absl::Status Scatter(tensorflow::Node* node);
  absl::Status Read(tensorflow::Node* node);
  absl::Status Gather(tensorflow::Node* node);
  absl::Status Size(tensorflow::Node* node);
  absl::Status Sum(tensorflow::Node* node);
  absl::Status Zeros(tensorflow::Node* node);
  absl::Status PassOn(tensorflow::Node* node);
  absl::Status Push(tensorflow::Node* node);
  absl::Status Pop(tensorflow::Node* node);

  // Returns the number of the array of a node's handle; nullopt if it is not followed.
  std::optional<int> ArrayOf(const tensorflow::Node& node) const;
  // Returns what has been written to `array` upstream of an input, nothing if that is a
  // flow of its forward array; null if it is not followed.
  std::shared_ptr<const Flow> FlowOf(const tensorflow::Node& node, int input,
                                     int array) const;
  void Set(const tensorflow::Node& node, int output, Flow flow);
  // Adds a write to an element; returns false if it has no place or is written already.
  bool Add(const Write& write, int place, Flow* flow);
  // Returns the element, or the sum of its gradients; a null node if it has none.
  absl::StatusOr<tensorflow::OutputTensor> Element(const Flow& flow, int place);
  // Returns the places that an input names; nullopt if it is not a constant vector.
  std::optional<std::vector<int>> PlacesIn(const tensorflow::Node& node, int input);

  tensorflow::Graph& graph_;
  KnownValues& values_;
  std::vector<Array> arrays_;
  absl::flat_hash_map<Key, int> handles_;
  absl::flat_hash_map<Key, std::shared_ptr<const Flow>> flows_;
  absl::flat_hash_map<Key, Tensors> stacks_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_LOOPS_TENSOR_ARRAYS_H_
