// A data set of sparse batches, cut out of compressed sparse rows, for tensorbow.data.
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

groups: a data set of compressed sparse rows: where the values of each row end, after a 0
  (int64); their columns, from 0 (int64); the values (float); where the labels of each row
  end, after a 0 (int64); the labels, from 0 (int64). A batch is from one group.
rows: of a batch; at least 1. The last one of a group may have fewer.
num_columns: of a batch.
num_labels: columns of its labels.
)doc";

}  // namespace

REGISTER_OP("TensorBowSparseBatchesDataset")
    .Input("groups: variant")
    .Input("rows: int64")
    .Output("handle: variant")
    .Attr("num_columns: int >= 1")
    .Attr("num_labels: int >= 1")
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc(kSparseBatchesDoc);

}  // namespace tensorbow
