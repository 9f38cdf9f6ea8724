#include "cc/passes/task/exchange_levels.h"

#include <algorithm>

#include "cc/graph/node_inputs.h"
#include "cc/graph/op_facts.h"
#include "cc/passes/task/reduce_gradients.h"

namespace tensorbow {

namespace tf = ::tensorflow;

ExchangeLevels::ExchangeLevels(const std::vector<tf::Node*>& ordered,
                               const NodeSet& averaged, const NodeSet& writers)
    : updates_(averaged) {
  for (tf::Node* node : ordered) {
    int level = 0;
    for (const tf::Edge* edge : node->in_edges()) {
      // The source of an edge back in a loop has no level yet.
      if (levels_.contains(edge->src())) level = std::max(level, Through(*edge));
    }
    levels_[node] = level;
    if (writers.count(node) > 0 && level > 0) updates_.insert(node);
  }
}

int ExchangeLevels::Of(const tf::Node& node) const { return levels_.at(&node); }

int ExchangeLevels::Through(const tf::Edge& edge) const {
  const bool averages =
      !edge.IsControlEdge() && IsOp(edge.src(), {kReduceGradient, kReduceRows});
  const bool counts = averages || updates_.count(edge.src()) > 0;
  return levels_.at(edge.src()) + (counts ? 1 : 0);
}

}  // namespace tensorbow
