// Several elements of a data pipeline at once, concatenated.
// cc/passes/program/batch_elements replaces TensorFlow's IteratorGetNext by it.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

constexpr char kIteratorRowsDoc[] = R"doc(
Gets elements from the iterator, as many whole ones as have `rows` rows together, at
least one and fewer at the end of the data, and concatenates each component. Elements of
which not every component has as many rows are not put together.

rows: at least 1.
)doc";

}  // namespace

REGISTER_OP("TensorBowIteratorGetRows")
    .Input("iterator: resource")
    .Output("components: output_types")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .Attr("rows: int >= 1")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::DatasetIteratorShape)
    .Doc(kIteratorRowsDoc);

}  // namespace tensorbow
