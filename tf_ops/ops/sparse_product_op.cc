// Products with a sparse matrix, by which cc/passes/task/fuse_sparse_products replaces
// TensorFlow's SparseTensorDenseMatMul: the same product, and the gradient of the
// matrix's weights by its rows that are not empty.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

constexpr char kSparseProductDoc[] = R"doc(
Multiplies the transpose of a sparse matrix a with a dense one.

a_indices, a_values, a_shape: of a, as in SparseTensorDenseMatMul.
b: [rows of a, columns].
values: the rows of the product that are not empty, [number of them, columns].
rows: which they are, ascending.
shape: of the product as a whole.
)doc";

constexpr char kWholeDoc[] = R"doc(
Does what SparseTensorDenseMatMul does, with the same bits.
)doc";

}  // namespace

REGISTER_OP("TensorBowSparseTensorDenseMatMul")
    .Input("a_indices: Tindices")
    .Input("a_values: T")
    .Input("a_shape: int64")
    .Input("b: T")
    .Output("product: T")
    .Attr("T: {float}")
    .Attr("Tindices: {int64}")
    .Attr("adjoint_a: bool = false")
    .Attr("adjoint_b: bool = false")
    .SetShapeFn([](tf::shape_inference::InferenceContext* c) {
      const tf::OpRegistrationData* original = nullptr;
      TF_RETURN_IF_ERROR(
          tf::OpRegistry::Global()->LookUp("SparseTensorDenseMatMul", &original));
      return original->shape_inference_fn(c);
    })
    .Doc(kWholeDoc);

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
    .Doc(kSparseProductDoc);

}  // namespace tensorbow
