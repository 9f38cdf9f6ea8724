// Copies of the functions that a loop consists of, as ops of the loop's graph.
#ifndef TENSORBOW_CC_PASSES_LOOPS_FUNCTION_COPIES_H_
#define TENSORBOW_CC_PASSES_LOOPS_FUNCTION_COPIES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cc/passes/loops/known_values.h"
#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

using Tensors = std::vector<tensorflow::OutputTensor>;

// An attribute of a loop whose number of iterations is a constant.
constexpr char kIterationsAttribute[] = "_tensorbow_iterations";

// Returns whether an op is a loop of functions.
bool IsLoop(absl::string_view op);

// The body of a function.
struct LoopFunction {
  const tensorflow::FunctionDef* definition = nullptr;
  std::unique_ptr<tensorflow::FunctionBody> body;
  std::vector<tensorflow::Node*> order;  // each node after its inputs
};

// The copies of a function's constants, which all its copies share.
using SharedConstants = absl::flat_hash_map<const tensorflow::Node*, tensorflow::Node*>;

// Copies the ops of functions into a graph. Thread-compatible.
class FunctionCopies {
 public:
  // `functions`, `graph`, `values`: not owned.
  FunctionCopies(const tensorflow::FunctionLibraryDefinition& functions,
                 tensorflow::Graph* graph, KnownValues* values)
      : functions_(functions), graph_(*graph), values_(*values) {}

  // Returns the function that an attribute of a loop names, "cond" or "body".
  absl::StatusOr<const LoopFunction*> Find(const tensorflow::Node& loop,
                                           const char* attribute);

  // Adds the ops of a function, and calls `added` with each. The copies wait for their
  // inputs only. Returns the results. `constants` is used and extended.
  absl::StatusOr<Tensors> Copy(
      const tensorflow::Node& loop, const LoopFunction& function,
      const Tensors& arguments,
      const std::function<absl::Status(tensorflow::Node*)>& added,
      SharedConstants* constants);

 private:
  const tensorflow::FunctionLibraryDefinition& functions_;
  tensorflow::Graph& graph_;
  KnownValues& values_;
  absl::node_hash_map<std::string, LoopFunction> found_;  // by name
};

// Has a node take the tensors that have replaced its inputs.
absl::Status TakeCurrentInputs(const KnownValues& values, tensorflow::Graph* graph,
                               tensorflow::Node* node);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_LOOPS_FUNCTION_COPIES_H_
