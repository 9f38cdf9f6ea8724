// The ops of a graph that write a variable.
#ifndef TENSORBOW_CC_GRAPH_WRITERS_H_
#define TENSORBOW_CC_GRAPH_WRITERS_H_

#include <vector>

#include "cc/graph/dataflow.h"
#include "cc/graph/downstream.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Finds writers, also calls of functions that write. Thread-compatible.
class VariableWriters {
 public:
  explicit VariableWriters(const tensorflow::FunctionLibraryDefinition& functions)
      : functions_(functions), summaries_(functions) {}

  // Returns the ops that change the variable, wherever they get its handle from.
  std::vector<const tensorflow::Node*> Of(const tensorflow::Node& variable);

 private:
  // Returns whether the node may write a resource that it takes from one of `users`.
  bool MayWrite(const tensorflow::Node& node, const NodeSet& users);

  const tensorflow::FunctionLibraryDefinition& functions_;
  FunctionSummaries summaries_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_WRITERS_H_
