// CPU kernel that cuts a batch out of compressed sparse rows.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

const int64_t* Numbers(const tf::Tensor& tensor) {
  return static_cast<const int64_t*>(tensor.data());
}

class SparseRowsKernel : public tf::OpKernel {
 public:
  explicit SparseRowsKernel(tf::OpKernelConstruction* construction)
      : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("batch_size", &batch_size_));
  }

  void Compute(tf::OpKernelContext* context) override {
    OP_REQUIRES_OK(context, Check(*context));
    const int64_t all = context->input(kEnds).NumElements() - 1;
    const int64_t batch = Numbers(context->input(kBatch))[0];
    OP_REQUIRES(context, batch >= 0 && batch < (all + batch_size_ - 1) / batch_size_,
                absl::InvalidArgumentError(
                    absl::StrCat("Got batch ", batch, " of ", all, " rows")));
    const int64_t first = batch * batch_size_;
    const int64_t count = std::min(batch_size_, all - first);
    tf::Tensor *rows = nullptr, *values = nullptr, *label_values = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &rows));
    rows->scalar<int64_t>()() = count;
    int64_t begin = 0, end = 0;
    OP_REQUIRES_OK(context, Cut(context, kEnds, first, count, 1, &begin, &end));
    OP_REQUIRES_OK(context, context->allocate_output(2, {end - begin}, &values));
    const auto* const all_values =
        static_cast<const float*>(context->input(kValues).data());
    std::copy(all_values + begin, all_values + end,
              static_cast<float*>(values->data()));
    OP_REQUIRES_OK(context, Cut(context, kLabelEnds, first, count, 3, &begin, &end));
    OP_REQUIRES_OK(context, context->allocate_output(4, {end - begin}, &label_values));
    std::fill_n(static_cast<float*>(label_values->data()), end - begin, 1.0f);
  }

 private:
  enum Input { kBatch, kEnds, kColumns, kValues, kLabelEnds, kLabels };

  static absl::Status Check(const tf::OpKernelContext& context) {
    const auto is_vector = [&](int input) { return context.input(input).dims() == 1; };
    const bool fits =
        context.input(kBatch).dims() == 0 && is_vector(kEnds) && is_vector(kColumns) &&
        is_vector(kValues) && is_vector(kLabelEnds) && is_vector(kLabels) &&
        context.input(kEnds).NumElements() > 0 &&
        context.input(kEnds).NumElements() == context.input(kLabelEnds).NumElements() &&
        context.input(kColumns).NumElements() == context.input(kValues).NumElements();
    return fits ? absl::OkStatus()
                : absl::InvalidArgumentError(
                      "Wanted a number and rows of fitting columns, values and labels");
  }

  // Gives the output the rows, from 0, and the columns of what `count` rows from
  // `first` on have; says where that lies. `ends`: the input, before its columns.
  static absl::Status Cut(tf::OpKernelContext* context, int ends, int64_t first,
                          int64_t count, int output, int64_t* begin, int64_t* end) {
    const int64_t* const at = Numbers(context->input(ends)) + first;
    const tf::Tensor& columns = context->input(ends + 1);
    *begin = at[0];
    *end = at[count];
    if (!std::is_sorted(at, at + count + 1) || *begin < 0 ||
        *end > columns.NumElements()) {
      return absl::InvalidArgumentError("Rows must end one after the other");
    }
    tf::Tensor* indices = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(output, {*end - *begin, 2}, &indices));
    auto* next = static_cast<int64_t*>(indices->data());
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t i = at[row]; i < at[row + 1]; ++i) {
        *next++ = row;
        *next++ = Numbers(columns)[i];
      }
    }
    return absl::OkStatus();
  }

  int64_t batch_size_ = 1;
};

REGISTER_KERNEL_BUILDER(Name("TensorBowSparseRows").Device(tf::DEVICE_CPU),
                        SparseRowsKernel);

}  // namespace
}  // namespace tensorbow
