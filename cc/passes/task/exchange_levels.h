// The levels of a task's nodes: how many averages and updates come before each. A step
// with two optimisers may compute the second one's gradients after the first one's
// updates.
#ifndef TENSORBOW_CC_PASSES_TASK_EXCHANGE_LEVELS_H_
#define TENSORBOW_CC_PASSES_TASK_EXCHANGE_LEVELS_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cc/graph/downstream.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

class ExchangeLevels {
 public:
  // `ordered`: all nodes in reverse post-order. `averaged`: updates by gradients.
  // `writers`: other nodes that write trained variables. Those that follow no average
  // write the same values on all learners and do not count.
  ExchangeLevels(const std::vector<tensorflow::Node*>& ordered, const NodeSet& averaged,
                 const NodeSet& writers);

  // Returns the number of averages and updates before the node, along the longest path.
  int Of(const tensorflow::Node& node) const;
  // Returns the same for a node that has only this input.
  int Through(const tensorflow::Edge& edge) const;

  // Returns the updates and writers that count.
  const NodeSet& updates() const { return updates_; }
  // Returns whether the writer counts.
  bool Counts(const tensorflow::Node& writer) const {
    return updates_.count(&writer) > 0;
  }

 private:
  NodeSet updates_;
  absl::flat_hash_map<const tensorflow::Node*, int> levels_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_EXCHANGE_LEVELS_H_
