#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace tensorbow {

REGISTER_OP("TensorBowReduceGradient")
    .Input("gradient: T")
    .Output("mean: T")
    .Attr("T: {float, double, half, bfloat16}")
    .Attr("index: int >= 0")
    .Attr("shape: shape = { unknown_rank: true }")
    .Attr("sent: bool = false")
    .SetIsStateful()
    .SetShapeFn([](::tensorflow::shape_inference::InferenceContext* c) {
      ::tensorflow::PartialTensorShape shape;
      ::tensorflow::shape_inference::ShapeHandle known, merged;
      TF_RETURN_IF_ERROR(c->GetAttr("shape", &shape));
      TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shape, &known));
      TF_RETURN_IF_ERROR(c->Merge(c->input(0), known, &merged));
      c->set_output(0, merged);
      return absl::OkStatus();
    })
    .Doc(R"doc(
The average of a gradient over all learners, in learner order; waits for them. On a device
that is not a learner's, where one alone executes the step, the gradient itself.

index: the gradient's number in the learning task.
shape: of the gradient, where it is known. Several hosts have to know it.
sent: the average has been made by TensorBowSendGradient and TensorBowBeginUpdates.
)doc");

REGISTER_OP("TensorBowSendGradient")
    .Input("gradient: T")
    .Attr("T: {float, double, half, bfloat16}")
    .Attr("index: int >= 0")
    .SetIsStateful()
    .SetShapeFn(::tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Adds a gradient up over all learners, in learner order, waiting for them, and sends it to
the other hosts. Executed for all gradients of a task in the order of their numbers,
before TensorBowBeginUpdates, which waits until they have been averaged.

index: the gradient's number in the learning task.
)doc");

REGISTER_OP("TensorBowBeginUpdates")
    .Input("resources: N * resource")
    .Input("references: Ref(M * T)")
    .Attr("N: int >= 0 = 0")
    .Attr("M: int >= 0 = 0")
    .Attr("T: type = DT_FLOAT")
    .Attr("index: int >= 0 = 0")
    .Attr("votes: bool = false")
    .SetIsStateful()
    .SetShapeFn(::tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Executed when all gradients of a learning task have been computed, and before any of its
updates. Waits for all learners, and makes variables of which they have one copy ready
for being updated in place: those whose buffer is still referred to are copied.

index: the number of the meeting, among those of gradients.
votes: there are other hosts, which have to have come so far, too.
)doc");

REGISTER_OP("TensorBowReduceRows")
    .Input("gradient: T")
    .Input("indices: Tindices")
    .Output("mean: T")
    .Output("rows: Tindices")
    .Attr("T: {float, double, half, bfloat16}")
    .Attr("Tindices: {int32, int64}")
    .Attr("index: int >= 0")
    .SetIsStateful()
    .SetShapeFn(::tensorflow::shape_inference::UnknownShape)
    .Doc(R"doc(
The same for the gradient of some rows of a variable: the average of each row that any
learner has, ascending.

gradient: [shape of indices, elements of a row].
index: the gradient's number in the learning task.
)doc");

}  // namespace tensorbow
