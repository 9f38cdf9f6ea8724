// Resource variables that a task changes by assignments only, with the order of these.
#ifndef TENSORBOW_CC_PASSES_TASK_ASSIGNED_VARIABLES_H_
#define TENSORBOW_CC_PASSES_TASK_ASSIGNED_VARIABLES_H_

#include <map>
#include <optional>
#include <vector>

#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// The nodes downstream of others, by node id; over data and control edges.
using Followers = std::vector<bool>;
Followers FollowersOf(const std::vector<const tensorflow::Node*>& nodes,
                      const tensorflow::Graph& graph);

struct AssignedVariable {
  tensorflow::Node* handle = nullptr;
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  tensorflow::TensorShape shape;
  // In the order of their execution.
  std::vector<tensorflow::Node*> writes;
  std::vector<Followers> after;  // by write

  // Returns the number of writes before `read`; nullopt if it has no order with one.
  std::optional<int> WritesBefore(const tensorflow::Node& read) const;
};

// Returns variables of floating-point numbers and known shape that are written at least
// once, and only by assignments that follow from each other. None is written in a
// conditional.
std::map<const tensorflow::Node*, AssignedVariable> FindAssignedVariables(
    const tensorflow::Graph& graph);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_ASSIGNED_VARIABLES_H_
