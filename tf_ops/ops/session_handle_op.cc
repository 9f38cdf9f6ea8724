#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace tensorbow {

REGISTER_OP("TensorBowSessionHandle")
    .Output("handle: string")
    .SetIsStateful()
    .SetShapeFn(::tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
The name under which the session that executes this op keeps its stateful kernels.

handle: a scalar.
)doc");

}  // namespace tensorbow
