// Adam's update of a variable by a gradient of some rows. TensorFlow's optimisers write
// it with ten ops, most of which visit the whole variable or a slot;
// cc/passes/task/fuse_sparse_adam replaces them by one of these.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

constexpr char kSparseAdamDoc[] = R"doc(
Updates all rows of `var`, `m` and `v`: the slots decay and get what the moments add to
the rows `indices`, then var -= rate * m / (sqrt(v) + epsilon). With `member` >= 0 also
subtracts the correction of synchronous model averaging, alpha * (var - z), with var as
it was before the update and z the central model; fails then on a device that is not a
learner's.

m_updates: added to the rows of m; [shape of indices, rows of var].
v_updates: added to the rows of v; likewise.
member: the variable's number among those that the run trains, or -1.
)doc";

absl::Status RefOutput(tf::shape_inference::InferenceContext* c) {
  if (c->num_outputs() > 0) c->set_output(0, c->input(0));
  return absl::OkStatus();
}

}  // namespace

// V is the type of a variable input ("Ref(T)" or "resource").
#define TENSORBOW_SPARSE_ADAM(NAME, V, OUT)                                      \
  REGISTER_OP(NAME)                                                              \
      .Input("var: " V)                                                          \
      .Input("m: " V)                                                            \
      .Input("v: " V)                                                            \
      .Input("rate: T")                                                          \
      .Input("beta1: T")                                                         \
      .Input("beta2: T")                                                         \
      .Input("epsilon: T")                                                       \
      .Input("m_updates: T")                                                     \
      .Input("v_updates: T")                                                     \
      .Input("indices: Tindices") OUT.Attr("T: {float, double, half, bfloat16}") \
      .Attr("Tindices: {int32, int64}")                                          \
      .Attr("member: int >= -1 = -1")                                            \
      .SetShapeFn(RefOutput)                                                     \
      .Doc(kSparseAdamDoc)
TENSORBOW_SPARSE_ADAM("TensorBowSparseApplyAdam", "Ref(T)", .Output("out: Ref(T)"));
TENSORBOW_SPARSE_ADAM("TensorBowResourceSparseApplyAdam", "resource", );

}  // namespace tensorbow
