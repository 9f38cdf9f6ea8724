// Ops of learners that divide the rows of a batch: they exchange values within a task,
// and scale values by a learner's share of the rows.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

using tf::shape_inference::InferenceContext;
using tf::shape_inference::ShapeHandle;

// Sets the shape of the input except for the dimension of the rows.
absl::Status ShapeBesideAxis(InferenceContext* context) {
  ShapeHandle shape = context->input(0);
  int axis = 0;
  TF_RETURN_IF_ERROR(context->GetAttr("axis", &axis));
  if (context->RankKnown(shape) && context->Rank(shape) > axis) {
    TF_RETURN_IF_ERROR(context->ReplaceDim(shape, axis, context->UnknownDim(), &shape));
  }
  context->set_output(0, shape);
  return absl::OkStatus();
}

absl::Status ExchangedShape(InferenceContext* context) {
  std::string how;
  TF_RETURN_IF_ERROR(context->GetAttr("how", &how));
  ShapeHandle shape = context->input(0);
  if (how == "concat") return ShapeBesideAxis(context);
  context->set_output(0, shape);
  return absl::OkStatus();
}

constexpr char kExchangeDoc[] = R"doc(
The value of all rows, from those of the learners that share them: waits for all of them.

value: a learner's. Of one shape on all learners; where concatenated, but for `axis`.
whole: the same on all learners. A sum is Σ r^-exponent · value, where r is the number of all
  rows divided by that of the learner's; so a mean over rows has the exponent 1.
how: "first" is the value of the first learner. "concat" puts the values one after the other.
exponent: of a sum.
axis: of a concatenation.
index: the place among the exchanges of the task; -1: none, and the value stays as it is.
)doc";

constexpr char kMeanOfAllRowsDoc[] = R"doc(
A mean over rows that data choose, from the learners' sums: waits for all of them.

sum: of the elements of a learner's rows.
rows: the elements that were added up. Their number divided by that of `sum`, added up over the
  learners, is what the sum is divided by.
mean: what the learners' values of add up to the mean of all rows.
index: the place among the exchanges of the task; -1: none.
)doc";

constexpr char kOwnRowsDoc[] = R"doc(
A learner's own rows of all rows: waits for all learners, whose shares tell where they begin.

whole: the same on all learners.
own: its slice along `axis`; `whole` where that has the size 1.
index: the place among the exchanges of the task; -1: none, and the value stays as it is.
)doc";

constexpr char kRescaleDoc[] = R"doc(
The value times r^power, where r is the number of all rows divided by that of the learner's.
Integers are rounded.

powers: one for each element; empty: `power` for all.
)doc";

}  // namespace

REGISTER_OP("TensorBowExchange")
    .Input("value: T")
    .Output("whole: T")
    .Attr(
        "T: {float, double, half, bfloat16, int32, int64, uint8, int8, int16, uint16, "
        "uint32, uint64, bool}")
    .Attr("how: {'sum', 'max', 'min', 'all', 'any', 'first', 'concat'}")
    .Attr("exponent: int = 0")
    .Attr("axis: int >= 0 = 0")
    .Attr("index: int >= -1 = -1")
    .SetIsStateful()
    .SetShapeFn(ExchangedShape)
    .Doc(kExchangeDoc);

REGISTER_OP("TensorBowMeanOfAllRows")
    .Input("sum: T")
    .Input("rows: T")
    .Output("mean: T")
    .Attr("T: {float, double, half, bfloat16}")
    .Attr("index: int >= -1 = -1")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* context) {
      context->set_output(0, context->input(0));
      return absl::OkStatus();
    })
    .Doc(kMeanOfAllRowsDoc);

REGISTER_OP("TensorBowOwnRows")
    .Input("whole: T")
    .Output("own: T")
    .Attr(
        "T: {float, double, half, bfloat16, int32, int64, uint8, int8, int16, uint16, "
        "uint32, uint64, bool}")
    .Attr("axis: int >= 0 = 0")
    .Attr("index: int >= -1 = -1")
    .SetIsStateful()
    .SetShapeFn(ShapeBesideAxis)
    .Doc(kOwnRowsDoc);

REGISTER_OP("TensorBowRescale")
    .Input("value: T")
    .Output("rescaled: T")
    .Attr("T: {float, double, half, bfloat16, int32, int64}")
    .Attr("power: int = 0")
    .Attr("powers: list(int) = []")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::UnchangedShape)
    .Doc(kRescaleDoc);

}  // namespace tensorbow
