// CPU kernels of batch normalisation over the rows of all learners, and of their
// moments.
#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/arithmetic/batch_moments.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf_ops/kernels/exchange_kernel.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

using Floats = std::vector<float>;

class BatchNormKernel : public ExchangeKernel {
 public:
  explicit BatchNormKernel(tf::OpKernelConstruction* construction)
      : ExchangeKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("epsilon", &epsilon_));
  }

 protected:
  // Returns 1/√(variance + ε).
  float Inverse(float variance) const { return 1 / std::sqrt(variance + epsilon_); }

 private:
  float epsilon_ = 0;
};

// Returns InvalidArgument unless channels are the last dimension of `x` and the size of
// all vectors.
absl::Status CheckChannels(const tf::Tensor& x,
                           std::initializer_list<const tf::Tensor*> vectors) {
  const int64_t channels = x.dims() < 2 ? 0 : x.dim_size(x.dims() - 1);
  for (const tf::Tensor* vector : vectors) {
    if (channels > 0 && vector->dims() == 1 && vector->dim_size(0) == channels)
      continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "Got x of shape ", x.shape().DebugString(), " and a vector of shape ",
        vector->shape().DebugString(), "; wanted a number for each channel"));
  }
  return absl::OkStatus();
}

int64_t NumRows(const tf::Tensor& x) {
  return x.NumElements() / x.dim_size(x.dims() - 1);
}

class ForwardKernel : public BatchNormKernel {
 public:
  explicit ForwardKernel(tf::OpKernelConstruction* construction)
      : BatchNormKernel(construction) {
    std::string activation;
    OP_REQUIRES_OK(construction, construction->GetAttr("activation_mode", &activation));
    rectified_ = activation == "Relu";
  }

 private:
  absl::Status ComputeTogether(tf::OpKernelContext* context) override {
    const tf::Tensor& x = context->input(0);
    const tf::Tensor& scale = context->input(1);
    const tf::Tensor& offset = context->input(2);
    TF_RETURN_IF_ERROR(CheckChannels(x, {&scale, &offset}));
    const int64_t rows = NumRows(x), channels = scale.dim_size(0);
    const float* const values = x.flat<float>().data();
    const BatchMoments own = MomentsOf(values, rows, channels);
    BatchMoments all;
    TF_RETURN_IF_ERROR(
        Exchange(own, [&all](const std::vector<const BatchMoments*>& parts) {
          all = MomentsTogether(parts);
        }));

    float* vectors[4] = {};  // mean and variance of the batch, and the saved ones
    for (int i = 0; i < 4; ++i) {
      tf::Tensor* vector = nullptr;
      TF_RETURN_IF_ERROR(context->allocate_output(i + 1, {channels}, &vector));
      vectors[i] = vector->flat<float>().data();
    }
    tf::Tensor *y = nullptr, *unused = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(5, {0}, &unused));
    TF_RETURN_IF_ERROR(
        context->forward_input_or_allocate_output({0}, 0, x.shape(), &y));
    const auto count = static_cast<double>(all.rows);
    Floats factor(channels);
    for (int64_t c = 0; c < channels; ++c) {
      const double variance = all.squares[c] / count;
      vectors[0][c] = vectors[2][c] = static_cast<float>(all.mean[c]);
      vectors[1][c] =
          static_cast<float>(all.rows > 1 ? all.squares[c] / (count - 1) : variance);
      vectors[3][c] = static_cast<float>(variance);
      factor[c] = scale.flat<float>()(c) * Inverse(vectors[3][c]);
    }
    Normalise(values, rows, channels, vectors[2], factor.data(),
              offset.flat<float>().data(), rectified_, y->flat<float>().data());
    return absl::OkStatus();
  }

  bool rectified_ = false;
};

class GradientKernel : public BatchNormKernel {
 public:
  using BatchNormKernel::BatchNormKernel;

 private:
  // Returns the gradient sums of all rows per row of this learner, which has `own`
  // rows: the learners' averages, weighted by their rows.
  static GradientSums Together(const std::vector<const GradientSums*>& parts,
                               int64_t own) {
    int64_t rows = 0;
    for (const GradientSums* part : parts) rows += part->rows;
    const size_t channels = parts.front()->values.size();
    GradientSums all{rows, std::vector<double>(channels),
                     std::vector<double>(channels)};
    for (const GradientSums* part : parts) {
      const double weight = static_cast<double>(part->rows) /
                            static_cast<double>(rows) / static_cast<double>(own);
      for (size_t c = 0; c < channels; ++c) {
        all.values[c] += weight * part->values[c];
        all.products[c] += weight * part->products[c];
      }
    }
    return all;
  }

  absl::Status ComputeTogether(tf::OpKernelContext* context) override {
    const tf::Tensor& dy = context->input(0);
    const tf::Tensor& x = context->input(1);
    const tf::Tensor& scale = context->input(2);
    const tf::Tensor& mean = context->input(3);
    const tf::Tensor& variance = context->input(4);
    TF_RETURN_IF_ERROR(CheckChannels(x, {&scale, &mean, &variance}));
    if (dy.shape() != x.shape()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Got dy of shape ", dy.shape().DebugString(), " and x of shape ",
                       x.shape().DebugString(), "; wanted the same"));
    }
    const int64_t rows = NumRows(x), channels = scale.dim_size(0);
    const float* const centre = mean.flat<float>().data();
    const float* const gradients = dy.flat<float>().data();
    const float* const values = x.flat<float>().data();
    const GradientSums own = GradientSumsOf(gradients, values, rows, channels, centre);
    GradientSums all;
    TF_RETURN_IF_ERROR(
        Exchange(own, [&](const auto& parts) { all = Together(parts, own.rows); }));

    tf::Tensor *dx = nullptr, *dscale = nullptr, *doffset = nullptr, *unused = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(1, {channels}, &dscale));
    TF_RETURN_IF_ERROR(context->allocate_output(2, {channels}, &doffset));
    TF_RETURN_IF_ERROR(context->allocate_output(3, {0}, &unused));
    TF_RETURN_IF_ERROR(context->allocate_output(4, {0}, &unused));
    TF_RETURN_IF_ERROR(
        context->forward_input_or_allocate_output({0}, 0, x.shape(), &dx));
    Floats factor(channels), by_value(channels), by_distance(channels);
    for (int64_t c = 0; c < channels; ++c) {
      const float inverse = Inverse(variance.flat<float>()(c));
      factor[c] = scale.flat<float>()(c) * inverse;
      by_value[c] = static_cast<float>(all.values[c]);
      by_distance[c] = static_cast<float>(all.products[c]) * inverse * inverse;
      doffset->flat<float>()(c) = static_cast<float>(own.values[c]);
      dscale->flat<float>()(c) = static_cast<float>(own.products[c]) * inverse;
    }
    NormaliseGradient(gradients, values, rows, channels, centre, factor.data(),
                      by_value.data(), by_distance.data(), dx->flat<float>().data());
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("TensorBowBatchNorm").Device(tf::DEVICE_CPU),
                        ForwardKernel);
REGISTER_KERNEL_BUILDER(Name("TensorBowBatchNormGrad").Device(tf::DEVICE_CPU),
                        GradientKernel);

}  // namespace
}  // namespace tensorbow
