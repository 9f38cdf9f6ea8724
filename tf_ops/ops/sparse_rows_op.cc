// A batch of the rows that were read at once: what tensorbow.data makes sparse tensors
// of, with one op for each batch.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

constexpr char kDoc[] = R"doc(
Cuts a batch out of compressed sparse rows with labels.

batch: its number; it has `batch_size` rows, or as many as there are.
ends: where the values of each row end, after a 0.
columns, values: of all rows.
label_ends, labels: likewise, the labels of all rows.
rows: how many rows the batch has.
indices: row, from 0, and column of its values.
batch_values: its values.
label_indices: row and number of its labels.
label_values: a one for each.
)doc";

}  // namespace

REGISTER_OP("TensorBowSparseRows")
    .Input("batch: int64")
    .Input("ends: int64")
    .Input("columns: int64")
    .Input("values: float")
    .Input("label_ends: int64")
    .Input("labels: int64")
    .Output("rows: int64")
    .Output("indices: int64")
    .Output("batch_values: float")
    .Output("label_indices: int64")
    .Output("label_values: float")
    .Attr("batch_size: int >= 1")
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Scalar());
      for (int i : {1, 3}) {
        const auto entries = c->UnknownDim();
        c->set_output(i, c->Matrix(entries, 2));
        c->set_output(i + 1, c->Vector(entries));
      }
      return absl::OkStatus();
    })
    .Doc(kDoc);

}  // namespace tensorbow
