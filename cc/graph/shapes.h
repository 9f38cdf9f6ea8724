// Static shapes of a program's tensors. Pure function.
#ifndef TENSORBOW_CC_GRAPH_SHAPES_H_
#define TENSORBOW_CC_GRAPH_SHAPES_H_

#include <map>
#include <string>

#include "cc/graph/program_graph.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tensorbow {

// Returns the static shape of every tensor that `spec` feeds or fetches, by its name
// there. A shape that cannot be inferred has unknown rank.
std::map<std::string, tensorflow::PartialTensorShape> InferShapes(
    const ProgramGraph& program, const RunSpec& spec);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_SHAPES_H_
