#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace tensorbow {

REGISTER_OP("TensorBowShardScale")
    .Output("scale: T")
    .Attr("T: {float, double, half, bfloat16, complex64, complex128}")
    .SetIsStateful()
    .SetShapeFn(::tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
What a learner's gradient is multiplied by so that the average over the learners of the
iteration is the sum of their gradients: their number, divided by the learner's share
where averages of gradients are weighted. 1 on a device that is not a learner's.
)doc");

}  // namespace tensorbow
