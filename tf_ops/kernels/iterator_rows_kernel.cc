// The CPU kernel that gets several elements of a data pipeline at once. TensorFlow's
// own kernel gets each of them, in a context of its own. So the end of the data after
// the first one is no error.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

using Element = std::vector<tf::Tensor>;

// Makes TensorFlow's kernel.
absl::Status MakeGetNext(tf::OpKernelConstruction* construction,
                         std::unique_ptr<tf::OpKernel>* get_next) {
  tf::NodeDef definition = construction->def();
  definition.set_op("IteratorGetNext");
  definition.mutable_attr()->erase("rows");
  std::shared_ptr<const tf::NodeProperties> properties;
  TF_RETURN_IF_ERROR(tf::NodeProperties::CreateFromNodeDef(
      std::move(definition), tf::OpRegistry::Global(), &properties));
  tf::OpKernel* made = nullptr;
  TF_RETURN_IF_ERROR(tf::CreateOpKernel(
      construction->device_type(), construction->device(),
      construction->device()->GetAllocator({}), construction->function_library(),
      construction->resource_manager(), properties, construction->graph_def_version(),
      &made));
  get_next->reset(made);
  return absl::OkStatus();
}

// Returns the rows of an element; nullopt if its components disagree.
std::optional<int64_t> NumRowsOf(const Element& element) {
  for (const tf::Tensor& component : element) {
    if (component.dims() == 0 || component.dim_size(0) != element[0].dim_size(0)) {
      return std::nullopt;
    }
  }
  return element[0].dim_size(0);
}

class IteratorGetRowsKernel : public tf::AsyncOpKernel {
 public:
  explicit IteratorGetRowsKernel(tf::OpKernelConstruction* construction)
      : AsyncOpKernel(construction),
        worker_(construction->env(), "tensorbow_iterator_rows") {
    OP_REQUIRES_OK(construction, construction->GetAttr("rows", &rows_));
    OP_REQUIRES_OK(construction, MakeGetNext(construction, &get_next_));
  }

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    // Schedules it as TensorFlow's kernel does: the pipeline may need this thread.
    worker_.Schedule([this, context, done = std::move(done)] {
      const absl::Status status = GetRows(context);
      if (!status.ok()) context->SetStatus(status);
      done();
    });
  }

 private:
  absl::Status GetRows(tf::OpKernelContext* context) {
    std::vector<Element> elements(1);
    TF_RETURN_IF_ERROR(GetNext(context, &elements[0]));
    const std::optional<int64_t> first = NumRowsOf(elements[0]);
    int64_t rows = first.value_or(0);
    while (rows > 0 && rows + *first <= rows_) {
      Element element;
      const absl::Status status = GetNext(context, &element);
      if (absl::IsOutOfRange(status)) break;  // the next call reports it again
      TF_RETURN_IF_ERROR(status);
      const std::optional<int64_t> more = NumRowsOf(element);
      if (!more.has_value()) {
        return absl::InvalidArgumentError(absl::StrCat(
            requested_input(0), ": AdaptiveSGD(b_max=", rows_,
            ") joins elements of the pipeline, and the components of one have "
            "different "
            "numbers of rows. Leave b_max out, or batch all components alike"));
      }
      rows += *more;
      elements.push_back(std::move(element));
    }
    for (int i = 0; i < num_outputs(); ++i) {
      tf::Tensor all = elements[0][i];
      if (elements.size() > 1) {
        std::vector<tf::Tensor> parts;
        for (const Element& element : elements) parts.push_back(element[i]);
        TF_RETURN_IF_ERROR(tf::tensor::Concat(parts, &all));
      }
      context->set_output(i, all);
    }
    return absl::OkStatus();
  }

  // Gets one element.
  absl::Status GetNext(tf::OpKernelContext* context, Element* element) {
    tf::Tensor iterator = context->input(0);
    const tf::TensorValue input(&iterator);
    const tf::AllocatorAttributes input_attributes = context->input_alloc_attr(0);
    const std::vector<tf::AllocatorAttributes> output_attributes(num_outputs());
    tf::OpKernelContext::Params params;
    params.step_id = context->step_id();
    params.start_time_usecs = context->start_time_usecs();
    params.deadline = context->deadline();
    params.op_kernel = get_next_.get();
    params.device = context->device();
    params.output_attr_array = output_attributes.data();
    params.resource_manager = context->resource_manager();
    params.step_container = context->step_container();
    params.rendezvous = context->rendezvous();
    params.collective_executor = context->collective_executor();
    params.session_config = context->session_config();
    params.session_state = context->session_state();
    params.session_metadata = context->session_metadata();
    params.tensor_store = context->tensor_store();
    params.cancellation_manager = context->cancellation_manager();
    params.inputs = {&input, 1};
    params.input_alloc_attrs = {&input_attributes, 1};
    params.frame_iter = context->frame_iter();
    params.function_library = context->function_library();
    params.runner = context->runner();
    params.run_all_kernels_inline = context->run_all_kernels_inline();
    tf::OpKernelContext own(&params, num_outputs());
    get_next_->Compute(&own);
    TF_RETURN_IF_ERROR(own.status());
    for (int i = 0; i < num_outputs(); ++i) {
      const std::unique_ptr<tf::Tensor> component(own.release_output(i).tensor);
      element->push_back(*component);
    }
    return absl::OkStatus();
  }

  int64_t rows_ = 1;
  std::unique_ptr<tf::OpKernel> get_next_;
  tf::data::BackgroundWorker worker_;
};

REGISTER_KERNEL_BUILDER(Name("TensorBowIteratorGetRows").Device(tf::DEVICE_CPU),
                        IteratorGetRowsKernel);

}  // namespace
}  // namespace tensorbow
