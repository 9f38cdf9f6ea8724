// Whether a value can be a mean or a sum over the rows of a batch. Pure function.
#ifndef TENSORBOW_CC_REWRITE_ROW_MEANS_H_
#define TENSORBOW_CC_REWRITE_ROW_MEANS_H_

#include <string>

#include "absl/container/flat_hash_set.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

// False where the graph shows that `tensor`, which has no rows, is not: it is a root, a
// power, an exponential, a logarithm or a product of what has none, or the largest or
// smallest of rows. Denominators are not looked at. `dependent`: the nodes that depend
// on rows.
bool CanBeMeanOfRows(const ProgramGraph& graph, const std::string& tensor,
                     const absl::flat_hash_set<std::string>& dependent);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REWRITE_ROW_MEANS_H_
