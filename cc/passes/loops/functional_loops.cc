#include "cc/passes/loops/functional_loops.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/compiler/tf2xla/functionalize_while.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/node_builder.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Puts an op with the name of `exit` between it and its users.
absl::Status KeepName(tf::Node* exit, tf::Graph* graph) {
  const std::string name = exit->name();
  exit->set_name(graph->NewName(absl::StrCat(name, "/loop")));
  const std::vector<const tf::Edge*> edges(exit->out_edges().begin(),
                                           exit->out_edges().end());
  tf::Node* result = nullptr;
  TF_RETURN_IF_ERROR(tf::NodeBuilder(name, "Identity", graph->op_registry())
                         .Input(exit, 0)
                         .Finalize(graph, &result));
  for (const tf::Edge* edge : edges) {
    if (!edge->dst()->IsOp()) continue;
    tf::Node* const user = edge->dst();
    const int input = edge->dst_input();
    graph->RemoveEdge(edge);
    graph->AddEdge(result, input == tf::Graph::kControlSlot ? input : 0, user, input);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MakeLoopsFunctional(tf::Graph* graph) {
  std::vector<tf::Node*> exits;
  for (tf::Node* node : graph->op_nodes()) {
    if (node->IsExit()) exits.push_back(node);
  }
  for (tf::Node* exit : exits) TF_RETURN_IF_ERROR(KeepName(exit, graph));
  tf::FixupSourceAndSinkEdges(graph);
  return tf::FunctionalizeWhileLoop(graph, graph->mutable_flib_def());
}

}  // namespace tensorbow
