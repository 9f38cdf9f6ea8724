#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace tensorbow {

namespace tf = ::tensorflow;

REGISTER_OP("TensorBowReserveRandom")
    .Input("shape: T")
    .Output("key: uint64")
    .Output("counter: uint64")
    .Output("alg: int32")
    .Attr("T: {int32, int64}")
    .Attr("stream: string")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* context) {
      context->set_output(0, context->Vector(1));
      context->set_output(1, context->Vector(2));
      context->set_output(2, context->Scalar());
      return absl::OkStatus();
    })
    .Doc(R"doc(
Takes from a learner's stream of random numbers what one random op draws.

A stateful random op (RandomUniform, ...) is this op, which has the state, and a
stateless one (StatelessRandomUniformV2, ...), which draws; the numbers are the same.

shape: of the tensor that will be filled.
key: what the stateless op draws from, [1].
counter: the same, [2].
alg: the same; Philox.
stream: the name of the stream, unique to the random op.
seed: as of the random op; if it and `seed2` are 0 the stream begins anywhere.
seed2: as of the random op.
)doc");

}  // namespace tensorbow
