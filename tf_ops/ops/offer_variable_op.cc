#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace tensorbow {

REGISTER_OP("TensorBowOfferVariable")
    .Input("variable: resource")
    .Input("number: int64")
    .SetIsStateful()
    .SetShapeFn(::tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Offers a variable of eager code to a session, which adopts it by its number.

variable: its handle.
number: a scalar that no other offer uses.
)doc");

}  // namespace tensorbow
