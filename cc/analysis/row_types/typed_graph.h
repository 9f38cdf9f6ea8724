// A graph to be typed, with static shapes: the run's, or the body of a function.
#ifndef TENSORBOW_CC_ANALYSIS_ROW_TYPES_TYPED_GRAPH_H_
#define TENSORBOW_CC_ANALYSIS_ROW_TYPES_TYPED_GRAPH_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/graph/downstream.h"
#include "cc/graph/program_graph.h"
#include "tensorflow/core/common_runtime/shape_refiner.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Immutable once made.
struct TypedGraph {
  struct Tensor {
    const tensorflow::Node* node = nullptr;
    int index = 0;
  };

  std::unique_ptr<tensorflow::Graph> graph;
  std::vector<std::vector<Tensor>> inputs;                      // by node, in order
  std::vector<std::vector<const tensorflow::Node*>> consumers;  // by node
  std::vector<std::vector<tensorflow::PartialTensorShape>>
      shapes;  // by node and output
  // The arguments and results of a function's body, in the order of its signature.
  std::vector<const tensorflow::Node*> arguments, results;
  NodeSet conditional;  // nodes of conditionals and loops
  // The nodes that the graph executes for their effect, whatever its results.
  std::vector<const tensorflow::Node*> effects;

  const tensorflow::Node* Find(absl::string_view name) const;

  // Makes the graph of a run. `ranks`: of fed placeholders of unknown rank, by node.
  static absl::StatusOr<std::unique_ptr<TypedGraph>> Of(
      const ProgramGraph& program, const RunSpec& spec,
      const absl::flat_hash_map<std::string, int>& ranks);
  // Makes the body of a function, for arguments of these shapes.
  static absl::StatusOr<std::unique_ptr<TypedGraph>> OfFunction(
      const tensorflow::FunctionLibraryDefinition& functions, const std::string& name,
      const std::vector<tensorflow::PartialTensorShape>& arguments, int version);

 private:
  void Index(const tensorflow::ShapeRefiner& refiner);
};

// Returns the nodes that `ends` need, inputs first except in loops. `given`: by node,
// whether its inputs are not needed.
std::vector<const tensorflow::Node*> OrderOf(
    const TypedGraph& graph, const std::vector<bool>& given,
    const std::vector<const tensorflow::Node*>& ends);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_TYPED_GRAPH_H_
