#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace tensorbow {

REGISTER_OP("TensorBowRateScale")
    .Output("scale: T")
    .Attr("T: {float, double, half, bfloat16}")
    .SetIsStateful()
    .SetShapeFn(::tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
What a learner's learning rate is multiplied by where learners have batches of their own
size. 1 where they have not, and on a device that is not a learner's.
)doc");

}  // namespace tensorbow
