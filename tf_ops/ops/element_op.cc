// The op that replaces the source of an element, a pipeline or a queue, in a task that
// is fed the element.
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorbow {
namespace {

constexpr char kElementDoc[] = R"doc(
Components that are fed. Executed only for what waits for it; its own values are empty.
)doc";

}  // namespace

REGISTER_OP("TensorBowElement")
    .Output("components: output_types")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .SetShapeFn([](::tensorflow::shape_inference::InferenceContext* c) {
      std::vector<::tensorflow::PartialTensorShape> shapes;
      TF_RETURN_IF_ERROR(c->GetAttr("output_shapes", &shapes));
      for (int i = 0; i < c->num_outputs(); ++i) {
        ::tensorflow::shape_inference::ShapeHandle shape;
        TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes.at(i), &shape));
        c->set_output(i, shape);
      }
      return absl::OkStatus();
    })
    .Doc(kElementDoc);

}  // namespace tensorbow
