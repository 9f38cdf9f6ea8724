// Where the values of compressed sparse rows lie: what tensorbow.data makes sparse
// tensors of, many batches at once.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

constexpr char kDoc[] = R"doc(
Batch, row within the batch and column of every value of compressed sparse rows.

rows: of a batch; at least 1.
ends: where the values of each row end, after a 0.
columns: of the values.
entries: [values, 3].
)doc";

}  // namespace

REGISTER_OP("TensorBowEntriesOfRows")
    .Input("rows: int64")
    .Input("ends: int64")
    .Input("columns: int64")
    .Output("entries: int64")
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      tf::shape_inference::ShapeHandle columns;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 1, &columns));
      c->set_output(0, c->Matrix(c->Dim(columns, 0), 3));
      return absl::OkStatus();
    })
    .Doc(kDoc);

}  // namespace tensorbow
