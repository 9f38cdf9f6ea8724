// The operand of a fused update, with a value for every element of its variable:
// usually a tensor of the same shape, the gradient. For float32 matrices it may be a
// product, of which only the rows used next exist at a time; the gradient of the
// layer's inputs may then be an output (see tf_ops/ops/fused_update_ops.cc). Or some
// rows are given, and the others are zero.
//
// Lives while a kernel executes. Keeps the tensors.
#ifndef TENSORBOW_TF_OPS_KERNELS_UPDATE_OPERAND_H_
#define TENSORBOW_TF_OPS_KERNELS_UPDATE_OPERAND_H_

#include <algorithm>
#include <optional>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/arithmetic/input_gradient.h"
#include "cc/arithmetic/mean.h"
#include "cc/arithmetic/product.h"
#include "cc/arithmetic/some_rows.h"
#include "cc/central_model/central_model.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tensorbow {

template <typename T>
class UpdateOperand {
 public:
  // `input`: the tensor; or the product's left factor, with the right one as the input
  // "factor"; or rows, with their numbers and the whole shape as the inputs "rows".
  // `transposed`: whether the left factor is given transposed.
  static absl::Status Open(tensorflow::OpKernelContext* context, int input,
                           bool transposed, UpdateOperand* operand) {
    operand->tensor_ = context->input(input);
    operand->transposed_ = transposed;
    tensorflow::OpInputList factors, rows;
    TF_RETURN_IF_ERROR(context->input_list("rows", &rows));
    if (rows.size() > 0) return operand->OpenRows(rows);
    TF_RETURN_IF_ERROR(context->input_list("factor", &factors));
    if (factors.size() == 0) return absl::OkStatus();
    if (factors.size() > 1 || !std::is_same_v<T, float>) {
      return absl::InvalidArgumentError(absl::StrCat(
          "A product has one `factor` and is of float32, got ", factors.size(), " of ",
          tensorflow::DataTypeString(operand->tensor_.dtype())));
    }
    operand->factor_ = factors[0];
    const auto is_matrix = [](const tensorflow::Tensor& t) { return t.dims() == 2; };
    if (!is_matrix(operand->tensor_) || !is_matrix(*operand->factor_) ||
        operand->tensor_.dim_size(transposed ? 0 : 1) !=
            operand->factor_->dim_size(0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Matrix size-incompatible: In[0]: ", operand->tensor_.shape().DebugString(),
          ", In[1]: ", operand->factor_->shape().DebugString()));
    }
    return absl::OkStatus();
  }

  tensorflow::TensorShape shape() const {
    if (has_rows()) return shape_;
    if (!factor_.has_value()) return tensor_.shape();
    return {tensor_.dim_size(transposed_ ? 1 : 0), factor_->dim_size(1)};
  }

  // Returns whether only some rows are not zero.
  bool has_rows() const { return numbers_.has_value(); }
  // Returns whether every element can be read.
  bool is_whole() const { return !has_rows() && !factor_.has_value(); }

  // Returns the number of slices, from a multiple of it on, that are computed at once:
  // updates visit them one after the other.
  int slices_at_once() const {
    if (!product_.has_value()) return 1;
    return static_cast<int>(CentralModel::NumSlices(kMinRows * columns_));
  }

  // Copies values that lie in `other`, so that `other` may be changed.
  absl::Status DetachFrom(tensorflow::OpKernelContext* context,
                          const tensorflow::Tensor& other) {
    if (!tensor_.SharesBufferWith(other)) return absl::OkStatus();
    tensorflow::Tensor copy;
    TF_RETURN_IF_ERROR(context->allocate_temp(tensor_.dtype(), tensor_.shape(), &copy));
    std::copy_n(static_cast<const T*>(tensor_.data()), tensor_.NumElements(),
                static_cast<T*>(copy.data()));
    tensor_ = copy;
    return absl::OkStatus();
  }

  // Sets the weight of the learner's values in a mean, relative to an equal one. Called
  // before Prepare().
  void SetShare(double share) { share_ = share; }

  // Prepares for At(). The right factor is not read any more afterwards.
  absl::Status Prepare(tensorflow::OpKernelContext* context) {
    if (has_rows()) return AllocateSlice(context);
    if constexpr (std::is_same_v<T, float>) {
      if (!factor_.has_value()) return absl::OkStatus();
      const tensorflow::TensorShape shape = this->shape();
      columns_ = std::max<int64_t>(1, shape.dim_size(1));
      const Product::Factors factors{tensor_.flat<float>().data(),  transposed_,
                                     factor_->flat<float>().data(), shape.dim_size(0),
                                     factor_->dim_size(0),          shape.dim_size(1)};
      TF_RETURN_IF_ERROR(context->allocate_temp(
          tensorflow::DT_FLOAT, {Product::WorkspaceSize(factors)}, &workspace_));
      TF_RETURN_IF_ERROR(context->allocate_temp(tensorflow::DT_FLOAT,
                                                {Product::kScratchSize}, &scratch_));
      product_.emplace(factors, workspace_.flat<float>().data(),
                       static_cast<float>(share_));
      const int64_t rows = slices_at_once() * CentralModel::kSliceElements / columns_;
      TF_RETURN_IF_ERROR(context->allocate_temp(tensorflow::DT_FLOAT,
                                                {(rows + 2) * columns_}, &values_));
      return PrepareInputGradient(context);
    }
    return absl::OkStatus();
  }

  // Adds the contribution of a slice of the variable to the gradient of the inputs, if
  // that is an output. The slice begins at `w`.
  void AddInputGradient(const CentralModel::Slice& slice, const T* w) const {
    if constexpr (std::is_same_v<T, float>) {
      if (!input_gradient_.has_value()) return;
      input_gradient_->Add(slice.begin, slice.end, w, gradient_->flat<float>().data());
    }
  }

  // Returns the values of a slice's elements, or a part's; valid until the next call.
  const T* At(const CentralModel::Slice& slice) {
    if (has_rows()) {
      Read(slice, static_cast<T*>(values_.data()));
      return static_cast<const T*>(values_.data());
    }
    if constexpr (std::is_same_v<T, float>) {
      if (product_.has_value()) return MeanOfProducts({this}, slice);
    }
    return InTensor(slice);
  }

  // Writes these values, for an operand with rows. May be called by several threads.
  void Read(const CentralModel::Slice& slice, T* out) const {
    Spread(Rows(), slice.begin, slice.end, out);
  }

  // Returns the parts of a slice in which any of the operands has rows; all have the
  // same shape.
  static std::vector<CentralModel::Slice> PartsOf(
      const std::vector<const UpdateOperand*>& all, const CentralModel::Slice& slice) {
    std::vector<SomeRows<T>> rows;
    for (const UpdateOperand* operand : all) rows.push_back(operand->Rows());
    std::vector<CentralModel::Slice> parts;
    for (const auto& [begin, end] : PartsWithRows(rows, slice.begin, slice.end)) {
      parts.push_back({begin, end});
    }
    return parts;
  }

  // Prepares for MeanAt(), after Prepare().
  absl::Status PrepareMean(tensorflow::OpKernelContext* context) {
    if (product_.has_value() || has_rows()) return absl::OkStatus();
    return AllocateSlice(context);
  }

  // Returns the values of the mean of several operands, including this one. They have
  // the same shape, and their learners do not change them meanwhile.
  const T* MeanAt(const std::vector<const UpdateOperand*>& all,
                  const CentralModel::Slice& slice) {
    const int count = static_cast<int>(all.size());
    if constexpr (std::is_same_v<T, float>) {
      if (product_.has_value()) return MeanOfProducts(all, slice);
    }
    T* const mean = static_cast<T*>(values_.data());
    std::vector<const T*> values;
    std::vector<double> shares;
    bool equal = true;
    if (has_rows()) spread_.resize(count * slice.size());
    for (const UpdateOperand* operand : all) {
      if (has_rows()) {
        T* const own = spread_.data() + values.size() * slice.size();
        operand->Read(slice, own);
        values.push_back(own);
      } else {
        values.push_back(operand->InTensor(slice));
      }
      shares.push_back(operand->share_);
      equal &= operand->share_ == 1;
    }
    if (equal) {
      Mean(values.data(), count, slice.size(), mean);
    } else {
      Mean(values.data(), shares.data(), count, slice.size(), mean);
    }
    return mean;
  }

 private:
  // The minimum of a product's rows computed at once. The first and the last row may
  // belong in part to the slices before and after, which compute them, too.
  static constexpr int64_t kMinRows = 8;

  absl::Status OpenRows(const tensorflow::OpInputList& rows) {
    const auto is = [](const tensorflow::Tensor& t, int dims) {
      return t.dims() == dims;
    };
    if (rows.size() != 2 || !is(tensor_, 2) || !is(rows[0], 1) || !is(rows[1], 1) ||
        rows[1].dim_size(0) != 2 || rows[0].dim_size(0) != tensor_.dim_size(0) ||
        rows[1].flat<int64_t>()(1) != tensor_.dim_size(1)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Got ", rows.size(), " inputs `rows` with a gradient of shape ",
          tensor_.shape().DebugString(), "; wanted the rows' numbers and the shape"));
    }
    numbers_ = rows[0];
    const auto sizes = rows[1].flat<int64_t>();
    return tensorflow::TensorShape::BuildTensorShape({sizes(0), sizes(1)}, &shape_);
  }

  SomeRows<T> Rows() const {
    return {static_cast<const int64_t*>(numbers_->data()), numbers_->NumElements(),
            std::max<int64_t>(1, shape_.dim_size(1)),
            static_cast<const T*>(tensor_.data())};
  }

  absl::Status AllocateSlice(tensorflow::OpKernelContext* context) {
    const int64_t size = std::min(shape().num_elements(), CentralModel::kSliceElements);
    return context->allocate_temp(tensor_.dtype(), {size}, &values_);
  }

  const T* InTensor(const CentralModel::Slice& slice) const {
    return static_cast<const T*>(tensor_.data()) + slice.begin;
  }

  // Returns the mean of several products; valid until the next call.
  const float* MeanOfProducts(const std::vector<const UpdateOperand*>& all,
                              const CentralModel::Slice& slice) {
    const int64_t at_once = slices_at_once() * CentralModel::kSliceElements;
    const int64_t first = slice.begin / at_once * at_once;
    const int64_t begin = first / columns_;
    float* const rows = static_cast<float*>(values_.data());
    if (first != computed_) {
      const int64_t last = std::min(first + at_once, shape().num_elements());
      std::vector<const Product*> products;
      products.reserve(all.size());
      for (const UpdateOperand* operand : all) products.push_back(&*operand->product_);
      Product::RowsOfSum(products, begin, (last + columns_ - 1) / columns_,
                         1.0f / static_cast<float>(all.size()),
                         static_cast<float*>(scratch_.data()), rows);
      computed_ = first;
    }
    return rows + (slice.begin - begin * columns_);
  }

  absl::Status PrepareInputGradient(tensorflow::OpKernelContext* context) {
    tensorflow::OpOutputList gradients;
    TF_RETURN_IF_ERROR(context->output_list("input_gradient", &gradients));
    if (gradients.size() == 0) return absl::OkStatus();
    const tensorflow::TensorShape shape = this->shape();
    const InputGradient::Shape gradient{shape.dim_size(0), shape.dim_size(1),
                                        factor_->dim_size(0)};
    TF_RETURN_IF_ERROR(
        gradients.allocate(0, {gradient.batch, gradient.rows}, &gradient_));
    gradient_->flat<float>().setZero();
    TF_RETURN_IF_ERROR(context->allocate_temp(tensorflow::DT_FLOAT,
                                              {InputGradient::WorkspaceSize(gradient)},
                                              &gradient_workspace_));
    input_gradient_.emplace(gradient, factor_->flat<float>().data(),
                            gradient_workspace_.flat<float>().data());
    return absl::OkStatus();
  }

  tensorflow::Tensor tensor_;  // or the left factor, or rows
  tensorflow::Tensor values_;  // of a slice, if computed: whole rows of a product
  bool transposed_ = false;
  double share_ = 1;
  // Set if rows are given.
  std::optional<tensorflow::Tensor> numbers_;
  tensorflow::TensorShape shape_;
  std::vector<T> spread_;  // a part of each operand of a mean
  // Set for a product.
  std::optional<tensorflow::Tensor> factor_;
  int64_t columns_ = 1;
  tensorflow::Tensor workspace_;
  tensorflow::Tensor scratch_;
  std::optional<Product> product_;
  int64_t computed_ = -1;  // the first element of `values_`
  // Set if the gradient of the inputs is an output.
  tensorflow::Tensor* gradient_ = nullptr;  // an output of the context
  tensorflow::Tensor gradient_workspace_;
  std::optional<InputGradient> input_gradient_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_TF_OPS_KERNELS_UPDATE_OPERAND_H_
