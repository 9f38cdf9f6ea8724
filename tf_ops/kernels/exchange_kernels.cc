// CPU kernels of exchanges between learners, and of values scaled by shares of rows.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/register_types.h"
#include "tf_ops/kernels/exchange_kernel.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

// A learner's value, and its part of all rows, 1/r.
struct OfLearner {
  const tf::Tensor* value;
  double share;
};
using OfLearners = std::vector<const OfLearner*>;

template <typename T>
using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

// Writes Σ share^exponent · value.
template <typename T>
void AddUp(const OfLearners& all, int exponent, T* sum) {
  const int64_t size = all.front()->value->NumElements();
  std::vector<const T*> values;
  std::vector<double> weights;
  for (const OfLearner* one : all) {
    values.push_back(one->value->flat<T>().data());
    weights.push_back(std::pow(one->share / static_cast<double>(all.size()), exponent));
  }
  for (int64_t i = 0; i < size; ++i) {
    if (exponent == 0) {
      Sum<T> total = 0;
      for (const T* value : values) total += static_cast<Sum<T>>(value[i]);
      sum[i] = static_cast<T>(total);
      continue;
    }
    double total = 0;
    for (size_t j = 0; j < values.size(); ++j) {
      total += weights[j] * static_cast<double>(values[j][i]);
    }
    if constexpr (std::is_integral_v<T>) total = std::round(total);
    sum[i] = static_cast<T>(total);
  }
}

template <typename T, typename Choose>
void Reduce(const OfLearners& all, Choose choose, T* chosen) {
  const int64_t size = all.front()->value->NumElements();
  std::copy_n(all.front()->value->flat<T>().data(), size, chosen);
  for (size_t j = 1; j < all.size(); ++j) {
    const T* const values = all[j]->value->flat<T>().data();
    for (int64_t i = 0; i < size; ++i) chosen[i] = choose(chosen[i], values[i]);
  }
}

// Returns the larger number; a NaN stays one, as in TensorFlow's reductions.
template <typename T>
T Larger(T a, T b) {
  return a != a || a > b ? a : b;
}
template <typename T>
T Smaller(T a, T b) {
  return a != a || a < b ? a : b;
}

// Return the bytes of the dimensions after `axis`, and the elements of those before it.
int64_t BytesOfRow(const tf::Tensor& tensor, int axis) {
  int64_t bytes = tf::DataTypeSize(tensor.dtype());
  for (int d = axis + 1; d < tensor.dims(); ++d) bytes *= tensor.dim_size(d);
  return bytes;
}
int64_t Outer(const tf::Tensor& tensor, int axis) {
  int64_t count = 1;
  for (int d = 0; d < axis; ++d) count *= tensor.dim_size(d);
  return count;
}

void Concatenate(const OfLearners& all, int axis, tf::Tensor* whole) {
  auto* at = static_cast<char*>(whole->data());
  for (int64_t outer = 0; outer < Outer(*whole, axis); ++outer) {
    for (const OfLearner* one : all) {
      const tf::Tensor& value = *one->value;
      const int64_t bytes = BytesOfRow(value, axis) * value.dim_size(axis);
      std::memcpy(at, static_cast<const char*>(value.data()) + outer * bytes, bytes);
      at += bytes;
    }
  }
}

template <typename T>
class ExchangeValueKernel : public ExchangeKernel {
 public:
  explicit ExchangeValueKernel(tf::OpKernelConstruction* construction)
      : ExchangeKernel(construction) {
    std::string how;
    OP_REQUIRES_OK(construction, construction->GetAttr("how", &how));
    OP_REQUIRES_OK(construction, construction->GetAttr("exponent", &exponent_));
    OP_REQUIRES_OK(construction, construction->GetAttr("axis", &axis_));
    how_ = how == "sum"     ? How::kSum
           : how == "max"   ? How::kMax
           : how == "min"   ? How::kMin
           : how == "all"   ? How::kAll
           : how == "any"   ? How::kAny
           : how == "first" ? How::kFirst
                            : How::kConcat;
  }

 private:
  enum class How { kSum, kMax, kMin, kAll, kAny, kFirst, kConcat };

  absl::Status ComputeTogether(tf::OpKernelContext* context) override {
    const tf::Tensor& own = context->input(0);
    absl::Status status;
    TF_RETURN_IF_ERROR(Exchange(OfLearner{&own, share()}, [&](const OfLearners& all) {
      status = Combine(context, all);
    }));
    return status;
  }

  absl::Status Combine(tf::OpKernelContext* context, const OfLearners& all) {
    tf::TensorShape shape = all.front()->value->shape();
    for (const OfLearner* one : all) {
      const tf::TensorShape& other = one->value->shape();
      if (one == all.front()) continue;
      if (how_ == How::kConcat && Follows(shape, other)) {
        shape.set_dim(axis_, shape.dim_size(axis_) + other.dim_size(axis_));
      } else if (how_ != How::kFirst && shape != other) {
        return absl::InvalidArgumentError(absl::StrCat(
            "Learners exchange values of the shapes ", shape.DebugString(), " and ",
            other.DebugString(), " at ", name(), "; wanted the same"));
      }
    }
    tf::Tensor* whole = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(0, shape, &whole));
    if (how_ == How::kConcat) {
      Concatenate(all, axis_, whole);
      return absl::OkStatus();
    }
    T* const values = whole->flat<T>().data();
    if (how_ == How::kFirst) {
      std::copy_n(all.front()->value->flat<T>().data(), whole->NumElements(), values);
    } else if (how_ == How::kMax) {
      Reduce<T>(all, Larger<T>, values);
    } else if (how_ == How::kMin) {
      Reduce<T>(all, Smaller<T>, values);
    } else if (how_ == How::kSum) {
      if constexpr (!std::is_same_v<T, bool>) AddUp<T>(all, exponent_, values);
    } else if constexpr (std::is_same_v<T, bool>) {
      how_ == How::kAll ? Reduce<T>(all, std::logical_and<T>(), values)
                        : Reduce<T>(all, std::logical_or<T>(), values);
    }
    return absl::OkStatus();
  }

  // Returns whether rows of shape `other` can follow those of `shape`.
  bool Follows(const tf::TensorShape& shape, const tf::TensorShape& other) const {
    if (shape.dims() <= axis_ || shape.dims() != other.dims()) return false;
    for (int d = 0; d < shape.dims(); ++d) {
      if (d != axis_ && shape.dim_size(d) != other.dim_size(d)) return false;
    }
    return true;
  }

  How how_ = How::kSum;
  int exponent_ = 0, axis_ = 0;
};

// A learner and its part of all rows.
struct Share {
  int learner;
  double part;
};

template <typename T>
class OwnRowsKernel : public ExchangeKernel {
 public:
  explicit OwnRowsKernel(tf::OpKernelConstruction* construction)
      : ExchangeKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("axis", &axis_));
  }

 private:
  absl::Status ComputeTogether(tf::OpKernelContext* context) override {
    const tf::Tensor& whole = context->input(0);
    double before = 0, total = 0;
    TF_RETURN_IF_ERROR(
        Exchange(Share{learner(), share()}, [&](const std::vector<const Share*>& all) {
          for (const Share* one : all) {
            if (one->learner < learner()) before += one->part;
            total += one->part;
          }
        }));
    if (whole.dim_size(axis_) == 1) {  // for each row
      context->set_output(0, whole);
      return absl::OkStatus();
    }
    const auto rows = static_cast<double>(whole.dim_size(axis_));
    const int64_t first = std::llround(rows * before / total);
    const int64_t end = std::llround(rows * (before + share()) / total);
    tf::TensorShape shape = whole.shape();
    shape.set_dim(axis_, end - first);
    tf::Tensor* own = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(0, shape, &own));
    const int64_t row = BytesOfRow(whole, axis_), bytes = row * (end - first);
    for (int64_t outer = 0; outer < Outer(whole, axis_); ++outer) {
      const int64_t begin = (outer * whole.dim_size(axis_) + first) * row;
      std::memcpy(static_cast<char*>(own->data()) + outer * bytes,
                  static_cast<const char*>(whole.data()) + begin, bytes);
    }
    return absl::OkStatus();
  }

  int axis_ = 0;
};

// Returns the elements that are added up for each element of a sum.
double CountOf(const tf::Tensor& sum, const tf::Tensor& rows) {
  return static_cast<double>(rows.NumElements()) /
         static_cast<double>(std::max<int64_t>(1, sum.NumElements()));
}

template <typename T>
class MeanOfAllRowsKernel : public ExchangeKernel {
 public:
  using ExchangeKernel::ExchangeKernel;

 private:
  void ComputeAlone(tf::OpKernelContext* context) override {
    OP_REQUIRES_OK(context,
                   Divide(context, CountOf(context->input(0), context->input(1))));
  }

  absl::Status ComputeTogether(tf::OpKernelContext* context) override {
    const double own = CountOf(context->input(0), context->input(1));
    double count = 0;
    TF_RETURN_IF_ERROR(Exchange(own, [&count](const std::vector<const double*>& all) {
      for (const double* one : all) count += *one;
    }));
    return Divide(context, count);
  }

  static absl::Status Divide(tf::OpKernelContext* context, double count) {
    const tf::Tensor& sum = context->input(0);
    tf::Tensor* mean = nullptr;
    TF_RETURN_IF_ERROR(
        context->forward_input_or_allocate_output({0}, 0, sum.shape(), &mean));
    const T* const from = sum.flat<T>().data();
    std::transform(from, from + sum.NumElements(), mean->flat<T>().data(),
                   [count](T value) {
                     return static_cast<T>(static_cast<double>(value) / count);
                   });
    return absl::OkStatus();
  }
};

template <typename T>
class RescaleKernel : public tf::OpKernel {
 public:
  explicit RescaleKernel(tf::OpKernelConstruction* construction)
      : OpKernel(construction),
        device_(dynamic_cast<LearnerDevice*>(construction->device())) {
    OP_REQUIRES_OK(construction, construction->GetAttr("power", &power_));
    OP_REQUIRES_OK(construction, construction->GetAttr("powers", &powers_));
  }

  void Compute(tf::OpKernelContext* context) override {
    const double ratio = Ratio();
    double factor = std::pow(ratio, power_);
    const tf::Tensor& value = context->input(0);
    if (ratio == 1 || (powers_.empty() && power_ == 0)) {
      return context->set_output(0, value);
    }
    const auto elements = static_cast<int64_t>(powers_.size());
    OP_REQUIRES(context, powers_.empty() || elements == value.NumElements(),
                absl::InvalidArgumentError(absl::StrCat("Got ", value.NumElements(),
                                                        " elements at ", name(),
                                                        "; wanted ", elements)));
    tf::Tensor* rescaled = nullptr;
    OP_REQUIRES_OK(context, context->forward_input_or_allocate_output(
                                {0}, 0, value.shape(), &rescaled));
    const T* const from = value.flat<T>().data();
    T* const to = rescaled->flat<T>().data();
    for (int64_t i = 0; i < value.NumElements(); ++i) {
      if (!powers_.empty()) factor = std::pow(ratio, powers_[i]);
      double scaled = factor * static_cast<double>(from[i]);
      if constexpr (std::is_integral_v<T>) scaled = std::round(scaled);
      to[i] = static_cast<T>(scaled);
    }
  }

 private:
  // Returns the number of all rows divided by the learner's.
  double Ratio() const {
    if (device_ == nullptr || device_->synchroniser() == nullptr) return 1;
    const LearnerExchange exchange(device_->synchroniser(), device_->learner());
    const double participants = exchange.num_participants();
    return exchange.averages_gradients() ? participants / exchange.share()
                                         : participants;
  }

  LearnerDevice* const device_;
  int power_ = 0;
  std::vector<int> powers_;
};

#define TENSORBOW_REGISTER(T)                                                  \
  REGISTER_KERNEL_BUILDER(                                                     \
      Name("TensorBowExchange").Device(tf::DEVICE_CPU).TypeConstraint<T>("T"), \
      ExchangeValueKernel<T>);                                                 \
  REGISTER_KERNEL_BUILDER(                                                     \
      Name("TensorBowOwnRows").Device(tf::DEVICE_CPU).TypeConstraint<T>("T"),  \
      OwnRowsKernel<T>);
TF_CALL_FLOAT_TYPES(TENSORBOW_REGISTER)
TF_CALL_INTEGRAL_TYPES_NO_INT32(TENSORBOW_REGISTER)
TENSORBOW_REGISTER(int32_t)
TENSORBOW_REGISTER(bool)
#undef TENSORBOW_REGISTER

#define TENSORBOW_REGISTER(T)                                                       \
  REGISTER_KERNEL_BUILDER(                                                          \
      Name("TensorBowMeanOfAllRows").Device(tf::DEVICE_CPU).TypeConstraint<T>("T"), \
      MeanOfAllRowsKernel<T>);
TF_CALL_FLOAT_TYPES(TENSORBOW_REGISTER)
#undef TENSORBOW_REGISTER

#define TENSORBOW_REGISTER(T)                                                 \
  REGISTER_KERNEL_BUILDER(                                                    \
      Name("TensorBowRescale").Device(tf::DEVICE_CPU).TypeConstraint<T>("T"), \
      RescaleKernel<T>);
TF_CALL_FLOAT_TYPES(TENSORBOW_REGISTER)
TENSORBOW_REGISTER(int32_t)
TENSORBOW_REGISTER(int64_t)
#undef TENSORBOW_REGISTER

}  // namespace
}  // namespace tensorbow
