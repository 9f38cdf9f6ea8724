// The gradient of the weights that a sparse matrix is multiplied with: only the rows
// that are not empty. cc/rewrite/fuse_sparse_products puts it in the place of
// TensorFlow's SparseTensorDenseMatMul, whose result is dense.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

constexpr char kDoc[] = R"doc(
Multiplies the transpose of a sparse matrix a with a dense one.

a_indices, a_values, a_shape: of a, as in SparseTensorDenseMatMul.
b: [rows of a, columns].
values: the rows of the product that are not empty, [number of them, columns].
rows: which they are, ascending.
shape: of the product as a whole.
)doc";

}  // namespace

REGISTER_OP("TensorBowSparseProduct")
    .Input("a_indices: int64")
    .Input("a_values: float")
    .Input("a_shape: int64")
    .Input("b: float")
    .Output("values: float")
    .Output("rows: int64")
    .Output("shape: int64")
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      tf::shape_inference::ShapeHandle b;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(3), 2, &b));
      c->set_output(0, c->Matrix(c->UnknownDim(), c->Dim(b, 1)));
      c->set_output(1, c->Vector(c->UnknownDim()));
      c->set_output(2, c->Vector(2));
      return absl::OkStatus();
    })
    .Doc(kDoc);

}  // namespace tensorbow
