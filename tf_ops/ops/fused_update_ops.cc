// Optimiser ops that correct the replica towards the central model in the same pass
// over memory. Each is TensorFlow's op of the same name without "TensorBow": the same
// inputs, outputs and attributes, and one attribute more, the variable's number in the
// trained set of the run. cc/passes/task/fuse_updates replaces the program's ops by
// them; they work on learners only. cc/passes/task/fuse_products makes them multiply
// the matrices whose product is the gradient; cc/passes/task/fuse_sparse_products gives
// them its rows that are not zero.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

constexpr char kUpdateDoc[] = R"doc(
Updates a variable as the TensorFlow op of the same name does (without "TensorBow") and
subtracts the correction of synchronous model averaging, alpha * (var - z), with var as
it was before the update and z the central model. Where learners average gradients, it
waits for the others' and updates a part of all learners' variables with the mean, while
they update the rest. Fails on a device that is not a learner's.

With a `factor`, what would be the gradient (or the value assigned) is the left factor
of a float32 matrix product, `factor` the right one, and the product is the gradient.
Of a dense layer y = x var, the factors are x transposed and the gradient of y; with
`num_input_gradients` 1 the op also gives the gradient of x, factor * transpose(var),
with var as it was before the update.

With `rows` the gradient is given by some of its rows, the others being zero. Where
neither the correction nor the optimiser's rule changes anything without a gradient, only
these rows are touched.

member: the variable's number among those that the run trains, or -1 for an update
  without correction that does not wait for anybody.
shared: whether all learners have one copy of the variable and its slots. Of learners
  that average gradients only.
averaged: whether the gradient is the learners' mean already, the same for all.
factor: one matrix, or none.
rows: the numbers of the rows, ascending, each once, and the shape of the whole gradient;
  or none.
transpose: whether the left factor is given transposed.
input_gradient: [rows of `factor`, rows of `var`], or none.
)doc";

absl::Status ShapesOfUpdate(const char* op, tf::shape_inference::InferenceContext* c) {
  int num_factors = 0, num_rows = 0;
  TF_RETURN_IF_ERROR(c->GetAttr("num_factors", &num_factors));
  TF_RETURN_IF_ERROR(c->GetAttr("num_rows", &num_rows));
  if (num_factors > 0 ||
      num_rows > 0) {  // the gradient's shape is known only when it is computed
    int num_input_gradients = 0;
    TF_RETURN_IF_ERROR(c->GetAttr("num_input_gradients", &num_input_gradients));
    int output = 0;
    if (c->num_outputs() > num_input_gradients) c->set_output(output++, c->input(0));
    for (; output < c->num_outputs(); ++output) {
      c->set_output(output, c->UnknownShapeOfRank(2));
    }
    return absl::OkStatus();
  }
  const tf::OpRegistrationData* original = nullptr;
  TF_RETURN_IF_ERROR(tf::OpRegistry::Global()->LookUp(op, &original));
  return original->shape_inference_fn(c);
}

}  // namespace

// In the macros, V is the type of a variable input ("Ref(T)" or "resource") and OUT an
// output or nothing.
#define TENSORBOW_UPDATE_OP(NAME, INPUTS, OUT)                     \
  REGISTER_OP("TensorBow" NAME)                                    \
  INPUTS.Input("factor: num_factors * T")                          \
      .Input("rows: num_rows * int64")                             \
          OUT.Output("input_gradient: num_input_gradients * T")    \
      .Attr("T: {float, double, half, bfloat16}")                  \
      .Attr("use_locking: bool = false")                           \
      .Attr("num_factors: int >= 0 = 0")                           \
      .Attr("num_rows: int >= 0 = 0")                              \
      .Attr("num_input_gradients: int >= 0 = 0")                   \
      .Attr("transpose: bool = false")                             \
      .Attr("member: int >= -1")                                   \
      .Attr("shared: bool = false")                                \
      .Attr("averaged: bool = false")                              \
      .SetShapeFn([](auto* c) { return ShapesOfUpdate(NAME, c); }) \
      .Doc(kUpdateDoc)
#define TENSORBOW_OUT .Output("out: Ref(T)")

#define TENSORBOW_GRADIENT_DESCENT(V) \
  .Input("var: " V).Input("alpha: T").Input("delta: T")
TENSORBOW_UPDATE_OP("ApplyGradientDescent", TENSORBOW_GRADIENT_DESCENT("Ref(T)"),
                    TENSORBOW_OUT);
TENSORBOW_UPDATE_OP("ResourceApplyGradientDescent",
                    TENSORBOW_GRADIENT_DESCENT("resource"), );

#define TENSORBOW_MOMENTUM(V) \
  .Input("var: " V)           \
      .Input("accum: " V)     \
      .Input("lr: T")         \
      .Input("grad: T")       \
      .Input("momentum: T")   \
      .Attr("use_nesterov: bool = false")
TENSORBOW_UPDATE_OP("ApplyMomentum", TENSORBOW_MOMENTUM("Ref(T)"), TENSORBOW_OUT);
TENSORBOW_UPDATE_OP("ResourceApplyMomentum", TENSORBOW_MOMENTUM("resource"), );
TENSORBOW_UPDATE_OP("ResourceApplyKerasMomentum", TENSORBOW_MOMENTUM("resource"), );

#define TENSORBOW_ADAM(V)      \
  .Input("var: " V)            \
      .Input("m: " V)          \
      .Input("v: " V)          \
      .Input("beta1_power: T") \
      .Input("beta2_power: T") \
      .Input("lr: T")          \
      .Input("beta1: T")       \
      .Input("beta2: T")       \
      .Input("epsilon: T")     \
      .Input("grad: T")        \
      .Attr("use_nesterov: bool = false")
TENSORBOW_UPDATE_OP("ApplyAdam", TENSORBOW_ADAM("Ref(T)"), TENSORBOW_OUT);
TENSORBOW_UPDATE_OP("ResourceApplyAdam", TENSORBOW_ADAM("resource"), );

#define TENSORBOW_RMS_PROP(V) \
  .Input("var: " V)           \
      .Input("ms: " V)        \
      .Input("mom: " V)       \
      .Input("lr: T")         \
      .Input("rho: T")        \
      .Input("momentum: T")   \
      .Input("epsilon: T")    \
      .Input("grad: T")
TENSORBOW_UPDATE_OP("ApplyRMSProp", TENSORBOW_RMS_PROP("Ref(T)"), TENSORBOW_OUT);
TENSORBOW_UPDATE_OP("ResourceApplyRMSProp", TENSORBOW_RMS_PROP("resource"), );

#define TENSORBOW_ADAGRAD(V) \
  .Input("var: " V)          \
      .Input("accum: " V)    \
      .Input("lr: T")        \
      .Input("grad: T")      \
      .Attr("update_slots: bool = true")
TENSORBOW_UPDATE_OP("ApplyAdagrad", TENSORBOW_ADAGRAD("Ref(T)"), TENSORBOW_OUT);
TENSORBOW_UPDATE_OP("ResourceApplyAdagrad", TENSORBOW_ADAGRAD("resource"), );

#define TENSORBOW_ADAGRAD_V2(V) \
  .Input("var: " V)             \
      .Input("accum: " V)       \
      .Input("lr: T")           \
      .Input("epsilon: T")      \
      .Input("grad: T")         \
      .Attr("update_slots: bool = true")
TENSORBOW_UPDATE_OP("ApplyAdagradV2", TENSORBOW_ADAGRAD_V2("Ref(T)"), TENSORBOW_OUT);
TENSORBOW_UPDATE_OP("ResourceApplyAdagradV2", TENSORBOW_ADAGRAD_V2("resource"), );

#define TENSORBOW_REF_ASSIGN .Input("ref: Ref(T)").Input("value: T")
#define TENSORBOW_REF_OUT .Output("output_ref: Ref(T)")
TENSORBOW_UPDATE_OP("Assign", TENSORBOW_REF_ASSIGN.Attr("validate_shape: bool = true"),
                    TENSORBOW_REF_OUT);
TENSORBOW_UPDATE_OP("AssignAdd", TENSORBOW_REF_ASSIGN, TENSORBOW_REF_OUT);
TENSORBOW_UPDATE_OP("AssignSub", TENSORBOW_REF_ASSIGN, TENSORBOW_REF_OUT);

#define TENSORBOW_ASSIGN_VARIABLE_OP(NAME, ATTR)                   \
  REGISTER_OP("TensorBow" NAME)                                    \
      .Input("resource: resource")                                 \
      .Input("value: dtype")                                       \
      .Input("factor: num_factors * dtype")                        \
      .Input("rows: num_rows * int64")                             \
      .Output("input_gradient: num_input_gradients * dtype")       \
      .Attr("dtype: {float, double, half, bfloat16}")              \
          ATTR.Attr("shared: bool = false")                        \
      .Attr("averaged: bool = false")                              \
      .Attr("member: int >= -1")                                   \
      .Attr("num_factors: int >= 0 = 0")                           \
      .Attr("num_rows: int >= 0 = 0")                              \
      .Attr("num_input_gradients: int >= 0 = 0")                   \
      .Attr("transpose: bool = false")                             \
      .SetShapeFn([](auto* c) { return ShapesOfUpdate(NAME, c); }) \
      .Doc(kUpdateDoc)
TENSORBOW_ASSIGN_VARIABLE_OP("AssignVariableOp", .Attr("validate_shape: bool = false"));
TENSORBOW_ASSIGN_VARIABLE_OP("AssignAddVariableOp", );
TENSORBOW_ASSIGN_VARIABLE_OP("AssignSubVariableOp", );

}  // namespace tensorbow
