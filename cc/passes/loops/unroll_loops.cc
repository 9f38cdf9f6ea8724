#include "cc/passes/loops/unroll_loops.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/downstream.h"
#include "cc/passes/loops/function_copies.h"
#include "cc/passes/loops/known_values.h"
#include "cc/passes/loops/merge_products.h"
#include "cc/passes/loops/shape_ops.h"
#include "cc/passes/loops/tensor_arrays.h"
#include "cc/passes/loops/tensor_lists.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/node_builder.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

bool IsCounted(const tf::Node& node) {
  return IsLoop(node.type_string()) &&
         node.attrs().Find(kIterationsAttribute) != nullptr;
}

bool IsVariant(const tf::OutputTensor& tensor) {
  return tensor.node->output_type(tensor.index) == tf::DT_VARIANT;
}

// Returns the ops that the loop waits for.
std::vector<tf::Node*> NodesBefore(const tf::Node& loop) {
  std::vector<tf::Node*> nodes;
  for (const tf::Edge* edge : loop.in_edges()) {
    if (edge->IsControlEdge() && edge->src()->IsOp()) nodes.push_back(edge->src());
  }
  return nodes;
}

// Makes the iterations of all loops in a graph.
class Unroller {
 public:
  Unroller(const tf::FunctionLibraryDefinition& functions, tf::Graph* graph)
      : graph_(*graph),
        values_(graph),
        lists_(graph, &values_),
        arrays_(graph, &values_),
        shapes_(&values_),
        copies_(functions, graph, &values_) {}

  absl::Status Unroll(bool same_bits) {
    std::vector<tf::Node*> order;
    tf::GetReversePostOrder(graph_, &order, tf::NodeComparatorName());
    std::unordered_set<const tf::Node*> ends;  // of the task
    std::vector<tf::Node*> loops;
    const NodeSet conditional = Conditional(graph_);
    for (tf::Node* node : order) {
      if (!node->IsOp()) continue;
      if (IsEnd(*node) && !IsCounted(*node)) ends.insert(node);
      TF_RETURN_IF_ERROR(TakeCurrentInputs(values_, &graph_, node));
      if (IsCounted(*node)) {
        TF_RETURN_IF_ERROR(values_.Infer(node));
        TF_RETURN_IF_ERROR(UnrollLoop(node));
        loops.push_back(node);
        continue;
      }
      if (conditional.count(node) == 0) TF_RETURN_IF_ERROR(Simplify(node));
      TF_RETURN_IF_ERROR(values_.Infer(node));
    }
    for (tf::Node* loop : loops) graph_.RemoveNode(loop);
    tf::PruneForReverseReachability(&graph_, ends);
    if (!same_bits) {
      TF_RETURN_IF_ERROR(MergeProducts(conditional, values_, &graph_).status());
      tf::PruneForReverseReachability(&graph_, std::move(ends));
    }
    tf::FixupSourceAndSinkEdges(&graph_);
    return absl::OkStatus();
  }

 private:
  absl::Status UnrollLoop(tf::Node* loop) {
    int iterations = 0;
    TF_RETURN_IF_ERROR(
        tf::GetNodeAttr(loop->attrs(), kIterationsAttribute, &iterations));
    TF_ASSIGN_OR_RETURN(const LoopFunction* const body, copies_.Find(*loop, "body"));
    Tensors variables;
    for (int i = 0; i < loop->num_inputs(); ++i) {
      variables.push_back(values_.InputOf(*loop, i));
    }
    const std::vector<tf::Node*> before = NodesBefore(*loop);
    std::vector<tf::Node*> last = before;
    absl::flat_hash_map<const tf::Node*, tf::Node*> reads;  // by variable
    const auto simplify = [&](tf::Node* copy) -> absl::Status {
      if (copy->type_string() == "ReadVariableOp") {
        tf::Node*& first = reads[values_.InputOf(*copy, 0).node];
        if (first != nullptr) {
          values_.Replace({copy, 0}, {first, 0});
        } else {
          for (tf::Node* node : before) graph_.AddControlEdge(node, copy);
          last.push_back(first = copy);
        }
      }
      TF_RETURN_IF_ERROR(Simplify(copy));
      return values_.Infer(copy);
    };
    SharedConstants constants;
    for (int i = 0; i < iterations; ++i) {
      TF_RETURN_IF_ERROR(UseConstants(&variables));
      TF_ASSIGN_OR_RETURN(variables,
                          copies_.Copy(*loop, *body, variables, simplify, &constants));
    }
    for (int i = 0; i < loop->num_outputs(); ++i) {
      values_.Replace({loop, i}, variables[i]);
    }
    return Follow(loop, variables, last);
  }

  absl::Status Simplify(tf::Node* node) {
    TF_RETURN_IF_ERROR(lists_.Visit(node));
    TF_RETURN_IF_ERROR(arrays_.Visit(node));
    return shapes_.Visit(node);
  }

  // Replaces counters by their values.
  absl::Status UseConstants(Tensors* variables) {
    for (tf::OutputTensor& variable : *variables) {
      if (variable.node->output_type(variable.index) != tf::DT_INT32 ||
          variable.node->IsConstant() || !values_.IsScalar(variable)) {
        continue;
      }
      const std::optional<tf::Tensor> value = values_.Constant(variable);
      if (!value.has_value()) continue;
      TF_ASSIGN_OR_RETURN(variable, values_.AddConstant(*value));
    }
    return absl::OkStatus();
  }

  // Has what waits for the loop wait for its results and for `last`.
  absl::Status Follow(tf::Node* loop, const Tensors& results,
                      const std::vector<tf::Node*>& last) {
    std::vector<const tf::Edge*> waiting;
    for (const tf::Edge* edge : loop->out_edges()) {
      if (edge->IsControlEdge() && edge->dst()->IsOp()) waiting.push_back(edge);
    }
    if (waiting.empty()) return absl::OkStatus();
    absl::flat_hash_set<tf::Node*> before(last.begin(), last.end());
    for (const tf::OutputTensor& result : results) {
      if (!IsVariant(result)) before.insert(result.node);
    }
    tf::NodeBuilder builder(graph_.NewName(absl::StrCat(loop->name(), "/end")), "NoOp");
    for (tf::Node* node : before) builder.ControlInput(node);
    TF_ASSIGN_OR_RETURN(tf::Node* const end, values_.Add(builder));
    for (const tf::Edge* edge : waiting) {
      graph_.AddControlEdge(end, edge->dst());
      graph_.RemoveControlEdge(edge);
    }
    return absl::OkStatus();
  }

  tf::Graph& graph_;
  KnownValues values_;
  TensorLists lists_;
  TensorArrays arrays_;
  ShapeOps shapes_;
  FunctionCopies copies_;
};

}  // namespace

absl::StatusOr<bool> UnrollLoops(bool same_bits, TaskGraph* task) {
  tf::Graph* const graph = task->parts[0].graph.get();
  const auto nodes = graph->op_nodes();
  if (std::none_of(nodes.begin(), nodes.end(),
                   [](const tf::Node* node) { return IsCounted(*node); })) {
    return false;
  }
  TF_RETURN_IF_ERROR(Unroller(*task->functions, graph).Unroll(same_bits));
  return true;
}

}  // namespace tensorbow
