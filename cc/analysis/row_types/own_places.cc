#include "cc/analysis/row_types/own_places.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace tensorbow {

namespace {

constexpr int kAnyInput = -1;

}  // namespace

bool MayBeOwnPlaces(absl::string_view op, int i) {
  static const auto* const inputs = new absl::flat_hash_map<absl::string_view, int>(
      {{"Add", kAnyInput},
       {"AddV2", kAnyInput},
       {"CTCLoss", 1},
       {"Cast", kAnyInput},
       {"ConcatV2", kAnyInput},
       {"DynamicPartition", 0},
       {"DynamicStitch", kAnyInput},
       {"Enter", kAnyInput},
       {"Exit", kAnyInput},
       {"ExpandDims", kAnyInput},
       {"Gather", 1},
       {"GatherNd", 1},
       {"GatherV2", 1},
       {"Identity", kAnyInput},
       {"IdentityN", kAnyInput},
       {"Merge", kAnyInput},
       {"Mul", kAnyInput},
       {"NextIteration", kAnyInput},
       {"Pack", kAnyInput},
       {"ParallelDynamicStitch", kAnyInput},
       {"Rank", kAnyInput},
       {"Reshape", 0},
       {"ResourceGather", 1},
       {"ResourceGatherNd", 1},
       {"ScatterNd", 0},
       {"SegmentMean", 1},
       {"SegmentSum", 1},
       {"SetSize", 0},
       {"Shape", kAnyInput},
       {"ShapeN", kAnyInput},
       {"Size", kAnyInput},
       {"SparseTensorDenseMatMul", 0},
       {"SparseToDense", 0},
       {"Squeeze", kAnyInput},
       {"StackPushV2", kAnyInput},
       {"StopGradient", kAnyInput},
       {"Switch", 0},
       {"TensorListPushBack", kAnyInput},
       {"Tile", 0},
       {"UnsortedSegmentMax", 1},
       {"UnsortedSegmentMin", 1},
       {"UnsortedSegmentSum", 1},
       {"ZerosLike", kAnyInput}});
  const auto found = inputs->find(op);
  return found != inputs->end() && (found->second == kAnyInput || found->second == i);
}

bool KeepsOwnPlaces(absl::string_view op) {
  static const auto* const ops = new absl::flat_hash_set<absl::string_view>(
      {"Add", "AddV2", "Cast", "ConcatV2", "ExpandDims", "Mul", "Pack", "Reshape",
       "Squeeze", "Tile"});
  return ops->contains(op);
}

}  // namespace tensorbow
