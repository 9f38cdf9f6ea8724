// CPU kernel that says where the values of compressed sparse rows lie.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

class EntriesOfRowsKernel : public tf::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& ends = context->input(1);
    const tf::Tensor& columns = context->input(2);
    OP_REQUIRES(
        context,
        context->input(0).dims() == 0 && ends.dims() == 1 && columns.dims() == 1,
        absl::InvalidArgumentError("Wanted a number of rows, ends and columns"));
    const int64_t rows = *static_cast<const int64_t*>(context->input(0).data());
    const auto* const at = static_cast<const int64_t*>(ends.data());
    const int64_t count = ends.NumElements();  // one more than rows
    OP_REQUIRES(
        context,
        rows > 0 && count > 0 && at[0] == 0 && at[count - 1] == columns.NumElements() &&
            std::is_sorted(at, at + count),
        absl::InvalidArgumentError(absl::StrCat("Got batches of ", rows,
                                                " rows that do not end one after the "
                                                "other, where the ",
                                                columns.NumElements(), " columns do")));
    tf::Tensor* entries = nullptr;
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, {columns.NumElements(), 3}, &entries));
    const auto* const column = static_cast<const int64_t*>(columns.data());
    auto* next = static_cast<int64_t*>(entries->data());
    for (int64_t row = 0; row + 1 < count; ++row) {
      const int64_t batch = row / rows, own = row % rows;
      for (int64_t i = at[row]; i < at[row + 1]; ++i) {
        *next++ = batch;
        *next++ = own;
        *next++ = column[i];
      }
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("TensorBowEntriesOfRows").Device(tf::DEVICE_CPU),
                        EntriesOfRowsKernel);

}  // namespace
}  // namespace tensorbow
