#include "cc/passes/program/batch_elements.h"

#include <algorithm>

#include "cc/graph/op_facts.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns whether the shape is [?, known, …].
bool HasUnknownRowsOnly(const tf::TensorShapeProto& shape) {
  if (shape.unknown_rank() || shape.dim_size() == 0 || shape.dim(0).size() >= 0) {
    return false;
  }
  return std::all_of(shape.dim().begin() + 1, shape.dim().end(),
                     [](const auto& dimension) { return dimension.size() >= 0; });
}

bool Qualifies(const tf::NodeDef& node) {
  if (node.op() != "IteratorGetNext") return false;
  const auto& types = node.attr().at("output_types").list().type();
  const auto& shapes = node.attr().at("output_shapes").list().shape();
  return std::all_of(shapes.begin(), shapes.end(), HasUnknownRowsOnly) &&
         std::all_of(types.begin(), types.end(), [](int type) {
           return type != tf::DT_VARIANT && type != tf::DT_RESOURCE;
         });
}

}  // namespace

void BatchElements(int64_t rows, tf::GraphDef* graph) {
  for (tf::NodeDef& node : *graph->mutable_node()) {
    if (!Qualifies(node)) continue;
    node.set_op(kIteratorGetRows);
    (*node.mutable_attr())["rows"].set_i(rows);
  }
}

}  // namespace tensorbow
