// A data set of sparse batches, cut out of compressed sparse rows: what tensorbow.data
// reads.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

constexpr char kSparseBatchesDoc[] = R"doc(
The rows, and their labels, as one pair of sparse tensors for each batch.

The elements are pairs of sparse tensors as tf.data keeps them, a vector of variants each:
values [rows, columns], and a one for each label [rows, labels].

rows: of a batch; at least 1. The last one may have fewer.
ends: where the values of each row end, after a 0.
columns: of the values, from 0.
values: of the rows.
label_ends: where the labels of each row end, after a 0.
labels: of the rows, from 0.
num_columns: of a batch.
num_labels: columns of its labels.
)doc";

}  // namespace

REGISTER_OP("TensorBowSparseBatchesDataset")
    .Input("rows: int64")
    .Input("ends: int64")
    .Input("columns: int64")
    .Input("values: float")
    .Input("label_ends: int64")
    .Input("labels: int64")
    .Output("handle: variant")
    .Attr("num_columns: int >= 1")
    .Attr("num_labels: int >= 1")
    .SetDoNotOptimize()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc(kSparseBatchesDoc);

}  // namespace tensorbow
