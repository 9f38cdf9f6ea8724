#include "cc/graph/shape_functions.h"

#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Infers the shape of a sum, whose elements are like those of any list that it adds.
absl::Status SumShape(tf::shape_inference::InferenceContext* context) {
  tf::shape_inference::ShapeHandle sum = context->input(0);
  for (int i = 1; i < context->num_inputs(); ++i) {
    TF_RETURN_IF_ERROR(context->Merge(context->input(i), sum, &sum));
  }
  context->set_output(0, sum);
  for (int i = 0; i < context->num_inputs(); ++i) {
    const auto* const elements = context->input_handle_shapes_and_types(i);
    if (elements == nullptr) continue;
    context->set_output_handle_shapes_and_types(0, *elements);
    break;
  }
  return absl::OkStatus();
}

const tf::OpRegistrationData& Sum() {
  static const auto* const sum = [] {
    const tf::OpRegistrationData* found = nullptr;
    TF_CHECK_OK(tf::OpRegistry::Global()->LookUp("AddN", &found));
    auto* const corrected = new tf::OpRegistrationData(*found);
    corrected->shape_inference_fn = SumShape;
    return corrected;
  }();
  return *sum;
}

}  // namespace

absl::Status ShapeFunctions::LookUp(const std::string& op,
                                    const tf::OpRegistrationData** found) const {
  if (op != "AddN") return ops_.LookUp(op, found);
  *found = &Sum();
  return absl::OkStatus();
}

}  // namespace tensorbow
