// The shape functions of TensorFlow's ops, with a correction.
#ifndef TENSORBOW_CC_GRAPH_SHAPE_FUNCTIONS_H_
#define TENSORBOW_CC_GRAPH_SHAPE_FUNCTIONS_H_

#include <string>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op.h"

namespace tensorbow {

// Ops for shape inference. AddN's own function reads behind the end of a vector if it
// adds three tensor lists and knows the elements of all but the last. Thread-safe.
class ShapeFunctions : public tensorflow::OpRegistryInterface {
 public:
  // `ops`: not owned.
  explicit ShapeFunctions(const tensorflow::OpRegistryInterface* ops) : ops_(*ops) {}

  absl::Status LookUp(const std::string& op,
                      const tensorflow::OpRegistrationData** found) const override;

 private:
  const tensorflow::OpRegistryInterface& ops_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_SHAPE_FUNCTIONS_H_
