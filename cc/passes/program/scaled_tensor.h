// A tensor multiplied by a factor that each learner knows at execution. Pure function.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_SCALED_TENSOR_H_
#define TENSORBOW_CC_PASSES_PROGRAM_SCALED_TENSOR_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/program_graph.h"
#include "tensorflow/core/framework/node_def_builder.h"

namespace tensorbow {

// Appends the nodes of `product` to `added`: `tensor` times the result of an op of type
// `factor_op`, a scalar of the same type.
inline absl::Status AppendScaled(const TensorName& tensor, tensorflow::DataType dtype,
                                 const std::string& factor_op,
                                 const std::string& product,
                                 std::vector<tensorflow::NodeDef>* added) {
  const std::string factor = absl::StrCat(product, "/scale");
  absl::Status status = tensorflow::NodeDefBuilder(factor, factor_op)
                            .Attr("T", dtype)
                            .Finalize(&added->emplace_back());
  if (!status.ok()) return status;
  return tensorflow::NodeDefBuilder(product, "Mul")
      .Input(tensor.node, tensor.index, dtype)
      .Input(factor, 0, dtype)
      .Finalize(&added->emplace_back());
}

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_SCALED_TENSOR_H_
