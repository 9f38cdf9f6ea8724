// An update that a program has written with ops of its own, as one op.
// cc/passes/task/fuse_element_updates inserts it; it works as the fused optimiser ops
// do (fused_update_ops.cc).
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorbow {
namespace {

REGISTER_OP("TensorBowResourceApplyElements")
    .Input("var: resource")
    .Input("grad: T")
    .Input("slots: num_slots * resource")
    .Input("scalars: num_scalars * T")
    .Input("factor: num_factors * T")
    .Input("rows: num_rows * int64")
    .Output("input_gradient: num_input_gradients * T")
    .Attr("T: {float, double, half, bfloat16}")
    .Attr("num_slots: int >= 0")
    .Attr("num_scalars: int >= 0")
    .Attr("operations: list(string)")
    .Attr("arguments: list(int)")
    .Attr("results: list(int)")
    .Attr("num_factors: int >= 0 = 0")
    .Attr("num_rows: int >= 0 = 0")
    .Attr("num_input_gradients: int >= 0 = 0")
    .Attr("transpose: bool = false")
    .Attr("member: int >= -1")
    .Attr("shared: bool = false")
    .Attr("averaged: bool = false")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      for (int i = 0; i < c->num_outputs(); ++i) {
        c->set_output(i, c->UnknownShapeOfRank(2));
      }
      return absl::OkStatus();
    })
    .Doc(R"doc(
Updates a variable and its slots, all of one shape, element by element.

Values are numbered: the variable, the slots, the gradient, the scalars, then one value
for each operation (cc/arithmetic/element_program.h).

operations: names of TensorFlow's ops, in the order of their execution.
arguments: two values for each operation; one that takes one value has it twice.
results: the values that the variable and each slot become.
The other inputs and attributes are those of TensorBowResourceApplyGradientDescent.
)doc");

}  // namespace
}  // namespace tensorbow
