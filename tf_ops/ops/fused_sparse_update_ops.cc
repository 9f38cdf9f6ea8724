// Updates of some rows of a variable that correct all of it towards the central model.
// Each is TensorFlow's op of the same name without "TensorBow": the same inputs,
// outputs and attributes, and one attribute more, the variable's number in the trained
// set of the run. cc/passes/task/fuse_updates replaces the program's ops by them; they
// work on learners only.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

constexpr char kSparseUpdateDoc[] = R"doc(
Updates rows of a variable as the TensorFlow op of the same name does (without
"TensorBow") and subtracts from all rows the correction of synchronous model averaging,
alpha * (var - z), with var as it was before the update and z the central model. Fails on
a device that is not a learner's.

member: the variable's number among those that the run trains.
)doc";

absl::Status ShapesOfSparse(const char* op, tf::shape_inference::InferenceContext* c) {
  const tf::OpRegistrationData* original = nullptr;
  TF_RETURN_IF_ERROR(tf::OpRegistry::Global()->LookUp(op, &original));
  return original->shape_inference_fn(c);
}

}  // namespace

// In the macros, V is the type of a variable input ("Ref(T)" or "resource"), and OUT an
// output or nothing. TYPE is the name of the attribute that is the element type.
#define TENSORBOW_SPARSE_OP(NAME, INPUTS, OUT, TYPE)               \
  REGISTER_OP("TensorBow" NAME)                                    \
  INPUTS OUT.Attr(TYPE ": {float, double, half, bfloat16}")        \
      .Attr("Tindices: {int32, int64}")                            \
      .Attr("member: int >= 0")                                    \
      .SetShapeFn([](auto* c) { return ShapesOfSparse(NAME, c); }) \
      .Doc(kSparseUpdateDoc)
#define TENSORBOW_SPARSE_APPLY_OPS(NAME, INPUTS)                                \
  TENSORBOW_SPARSE_OP(NAME, INPUTS("Ref(T)").Attr("use_locking: bool = false"), \
                      .Output("out: Ref(T)"), "T");                             \
  TENSORBOW_SPARSE_OP("Resource" NAME,                                          \
                      INPUTS("resource").Attr("use_locking: bool = false"), , "T")

#define TENSORBOW_SPARSE_MOMENTUM(V) \
  .Input("var: " V)                  \
      .Input("accum: " V)            \
      .Input("lr: T")                \
      .Input("grad: T")              \
      .Input("indices: Tindices")    \
      .Input("momentum: T")          \
      .Attr("use_nesterov: bool = false")
TENSORBOW_SPARSE_APPLY_OPS("SparseApplyMomentum", TENSORBOW_SPARSE_MOMENTUM);

#define TENSORBOW_SPARSE_ADAGRAD(V) \
  .Input("var: " V)                 \
      .Input("accum: " V)           \
      .Input("lr: T")               \
      .Input("grad: T")             \
      .Input("indices: Tindices")   \
      .Attr("update_slots: bool = true")
TENSORBOW_SPARSE_APPLY_OPS("SparseApplyAdagrad", TENSORBOW_SPARSE_ADAGRAD);

#define TENSORBOW_SPARSE_ADAGRAD_V2(V) \
  .Input("var: " V)                    \
      .Input("accum: " V)              \
      .Input("lr: T")                  \
      .Input("epsilon: T")             \
      .Input("grad: T")                \
      .Input("indices: Tindices")      \
      .Attr("update_slots: bool = true")
TENSORBOW_SPARSE_APPLY_OPS("SparseApplyAdagradV2", TENSORBOW_SPARSE_ADAGRAD_V2);

#define TENSORBOW_SPARSE_RMS_PROP(V) \
  .Input("var: " V)                  \
      .Input("ms: " V)               \
      .Input("mom: " V)              \
      .Input("lr: T")                \
      .Input("rho: T")               \
      .Input("momentum: T")          \
      .Input("epsilon: T")           \
      .Input("grad: T")              \
      .Input("indices: Tindices")
TENSORBOW_SPARSE_APPLY_OPS("SparseApplyRMSProp", TENSORBOW_SPARSE_RMS_PROP);

#define TENSORBOW_SCATTER         \
  .Input("ref: Ref(T)")           \
      .Input("indices: Tindices") \
      .Input("updates: T")        \
      .Attr("use_locking: bool = false")
#define TENSORBOW_SCATTER_OUT .Output("output_ref: Ref(T)")
TENSORBOW_SPARSE_OP("ScatterAdd", TENSORBOW_SCATTER, TENSORBOW_SCATTER_OUT, "T");
TENSORBOW_SPARSE_OP("ScatterSub", TENSORBOW_SCATTER, TENSORBOW_SCATTER_OUT, "T");

#define TENSORBOW_RESOURCE_SCATTER \
  .Input("resource: resource").Input("indices: Tindices").Input("updates: dtype")
TENSORBOW_SPARSE_OP("ResourceScatterAdd", TENSORBOW_RESOURCE_SCATTER, , "dtype");
TENSORBOW_SPARSE_OP("ResourceScatterSub", TENSORBOW_RESOURCE_SCATTER, , "dtype");

}  // namespace tensorbow
