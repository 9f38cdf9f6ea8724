// Replaces a program's updates by ops that also correct (tf_ops/ops/fused_*_ops.cc).
//
// A trained variable's update is replaced if it is the only one (see updates.h) and has
// a fused op with a kernel. The op keeps its name, inputs and edges, so that error
// messages and fetches stay the same. Pure function.
#ifndef TENSORBOW_CC_PASSES_TASK_FUSE_UPDATES_H_
#define TENSORBOW_CC_PASSES_TASK_FUSE_UPDATES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/graph/task_graph.h"

namespace tensorbow {

// Replaces updates; returns for each of `trained` whether its update has been replaced.
// `trained`: names of variable nodes, in the order of the trained set. `may_fuse`:
// called for every update. The task graph must have been optimised.
absl::StatusOr<std::vector<bool>> FuseUpdates(
    const std::vector<std::string>& trained,
    const std::function<bool(const tensorflow::Node&)>& may_fuse, TaskGraph* task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_FUSE_UPDATES_H_
