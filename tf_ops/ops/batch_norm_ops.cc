// Ops for moments of the rows of all learners. One set replaces TensorFlow's
// FusedBatchNormV3, with the same inputs and outputs; the other is for programs that
// normalise by hand.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

using tf::shape_inference::InferenceContext;
using tf::shape_inference::ShapeHandle;

constexpr char kBatchNormDoc[] = R"doc(
Normalises rows by the moments of the rows of all learners; waits for them.

x: channels last.
y: (x - mean) * scale / sqrt(variance + epsilon) + offset; not below 0 where the activation is
  "Relu".
batch_mean: of all rows.
batch_variance: of all rows, by their number less one.
saved_mean: for the gradient.
saved_variance: likewise; by the number of rows.
unused: nothing.
index: where learners meet, among the exchanges of the task.
)doc";

constexpr char kBatchNormGradDoc[] = R"doc(
The gradient of TensorBowBatchNorm: of a learner's own loss, so that its average over the
learners, weighted by their rows, is that of all rows. Waits for the other learners.

index: where learners meet, among the exchanges of the task.
)doc";

}  // namespace

REGISTER_OP("TensorBowBatchNorm")
    .Input("x: float")
    .Input("scale: float")
    .Input("offset: float")
    .Output("y: float")
    .Output("batch_mean: float")
    .Output("batch_variance: float")
    .Output("saved_mean: float")
    .Output("saved_variance: float")
    .Output("unused: float")
    .Attr("epsilon: float = 0.0001")
    .Attr("activation_mode: {'Identity', 'Relu'} = 'Identity'")
    .Attr("index: int >= 0")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle x;
      TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(0), 2, &x));
      c->set_output(0, x);
      for (int i = 1; i < 5; ++i) c->set_output(i, c->Vector(c->Dim(x, -1)));
      c->set_output(5, c->Vector(0));
      return absl::OkStatus();
    })
    .Doc(kBatchNormDoc);

REGISTER_OP("TensorBowBatchNormGrad")
    .Input("dy: float")
    .Input("x: float")
    .Input("scale: float")
    .Input("saved_mean: float")
    .Input("saved_variance: float")
    .Output("dx: float")
    .Output("dscale: float")
    .Output("doffset: float")
    .Output("unused: float")
    .Output("unused_too: float")
    .Attr("epsilon: float = 0.0001")
    .Attr("index: int >= 0")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle x;
      TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(1), 2, &x));
      c->set_output(0, x);
      for (int i = 1; i < 3; ++i) c->set_output(i, c->Vector(c->Dim(x, -1)));
      for (int i = 3; i < 5; ++i) c->set_output(i, c->Vector(0));
      return absl::OkStatus();
    })
    .Doc(kBatchNormGradDoc);

}  // namespace tensorbow
