#include "cc/analysis/row_types/repeated_work.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/downstream.h"

namespace tensorbow {

namespace {

namespace tf = ::tensorflow;

using Need = RowNeed::Kind;

bool IsContraction(absl::string_view op) {
  static const auto* const ops = new absl::flat_hash_set<absl::string_view>(
      {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Conv2D", "Conv3D",
       "DepthwiseConv2dNative", "Einsum", "MatMul"});
  return ops->contains(op);
}

// Returns whether the tensor is the same on all learners and has at least that rank.
bool IsSame(const RowTypes& types, const TypedGraph::Tensor& tensor, int least_rank) {
  const RowType* const type =
      types.Find(absl::StrCat(tensor.node->name(), ":", tensor.index));
  return type != nullptr && type->is(RowKind::kSame) &&
         (!type->dims.has_value() || type->rank() >= least_rank);
}

// Returns the nodes that compute the same on all learners, from all rows.
NodeSet NodesOfAllRows(const TypedGraph& graph, const RowTypes& types) {
  NodeSet whole;
  std::vector<const tf::Node*> open;
  std::set<std::string> gather;
  std::set<std::pair<std::string, int>> slice;
  for (const RowNeed& need : types.needs) {
    if (need.kind == Need::kAllRows) gather.insert(need.node);
    if (need.kind == Need::kOwnRows) slice.insert({need.node, need.input});
  }
  for (const tf::Node* node : graph.graph->op_nodes()) {
    if (gather.count(node->name()) == 0) continue;
    whole.insert(node);
    open.push_back(node);
  }
  while (!open.empty()) {
    const tf::Node* const node = open.back();
    open.pop_back();
    for (const tf::Node* consumer : graph.consumers[node->id()]) {
      const auto& inputs = graph.inputs[consumer->id()];
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].node == node && IsSame(types, inputs[i], 1) &&
            slice.count({consumer->name(), static_cast<int>(i)}) == 0 &&
            whole.insert(consumer).second) {
          open.push_back(consumer);
        }
      }
    }
  }
  return whole;
}

RowReason Unknown(const tf::Node& node, absl::string_view text) {
  return {node.name(), node.type_string(), std::string(text)};
}

}  // namespace

std::shared_ptr<const RowReason> FindRepeatedWork(const TypedGraph& graph,
                                                  const RowTypes& types) {
  const NodeSet whole = NodesOfAllRows(graph, types);
  for (const tf::Node* node : graph.graph->op_nodes()) {
    if (whole.count(node) == 0 || !IsContraction(node->type_string())) continue;
    const auto& inputs = graph.inputs[node->id()];
    const bool has_weights =
        std::any_of(inputs.begin(), inputs.end(), [&](const auto& input) {
          return input.node->IsOp() && whole.count(input.node) == 0 &&
                 IsSame(types, input, 2);
        });
    if (has_weights) {
      return std::make_shared<RowReason>(
          Unknown(*node, "would compute the model from all rows on every learner"));
    }
  }
  return nullptr;
}

}  // namespace tensorbow
