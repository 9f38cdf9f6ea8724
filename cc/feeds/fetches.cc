#include "cc/feeds/fetches.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/register_types.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

bool EqualShapes(const std::vector<TaskOutcome>& tasks, size_t fetch) {
  return std::all_of(tasks.begin(), tasks.end(), [&](const TaskOutcome& task) {
    return task.fetches[fetch].shape() == tasks[0].fetches[fetch].shape();
  });
}

// Returns sum_k weights[k] · values[k], accumulated in task order.
template <typename T, typename Accumulator>
tf::Tensor WeightedSum(const std::vector<TaskOutcome>& tasks, size_t fetch,
                       const std::vector<double>& weights) {
  const tf::Tensor& first = tasks[0].fetches[fetch];
  tf::Tensor result(first.dtype(), first.shape());
  auto out = result.flat<T>();
  std::vector<const T*> values;
  for (const TaskOutcome& task : tasks) {
    values.push_back(task.fetches[fetch].flat<T>().data());
  }
  constexpr int64_t kBlock = 256;
  std::array<Accumulator, kBlock> sums;
  for (int64_t begin = 0; begin < out.size(); begin += kBlock) {
    const int64_t count = std::min(kBlock, out.size() - begin);
    sums.fill(Accumulator(0));
    for (size_t k = 0; k < values.size(); ++k) {
      const Accumulator weight(weights[k]);
      for (int64_t i = 0; i < count; ++i) {
        sums[i] += weight * static_cast<Accumulator>(values[k][begin + i]);
      }
    }
    for (int64_t i = 0; i < count; ++i) out(begin + i) = static_cast<T>(sums[i]);
  }
  return result;
}

bool CanSum(tf::DataType dtype) {
  return tf::DataTypeIsFloating(dtype) || tf::DataTypeIsComplex(dtype) ||
         tf::DataTypeIsInteger(dtype);
}

absl::StatusOr<tf::Tensor> Sum(const std::vector<TaskOutcome>& tasks, size_t fetch,
                               const std::vector<double>& weights) {
  switch (tasks[0].fetches[fetch].dtype()) {
#define TENSORBOW_SUM(T, Accumulator) \
  case tf::DataTypeToEnum<T>::value:  \
    return WeightedSum<T, Accumulator>(tasks, fetch, weights)
    TENSORBOW_SUM(float, double);
    TENSORBOW_SUM(double, double);
    TENSORBOW_SUM(Eigen::half, float);
    TENSORBOW_SUM(tf::bfloat16, float);
    TENSORBOW_SUM(tf::complex64, tf::complex128);
    TENSORBOW_SUM(tf::complex128, tf::complex128);
    TENSORBOW_SUM(int8_t, double);
    TENSORBOW_SUM(uint8_t, double);
    TENSORBOW_SUM(int16_t, double);
    TENSORBOW_SUM(tf::uint16, double);
    TENSORBOW_SUM(int32_t, double);
    TENSORBOW_SUM(tf::uint32, double);
    TENSORBOW_SUM(int64_t, long double);
    TENSORBOW_SUM(tf::uint64, long double);
#undef TENSORBOW_SUM
    default:
      return absl::InternalError("not a numeric type");
  }
}

absl::StatusOr<tf::Tensor> Mean(const std::vector<TaskOutcome>& tasks, size_t fetch) {
  double rows = 0;
  bool known = true;
  for (const TaskOutcome& task : tasks) {
    rows += task.rows;
    known &= task.rows > 0;
  }
  std::vector<double> weights;
  for (const TaskOutcome& task : tasks) {
    weights.push_back(known ? task.rows / rows : 1.0 / tasks.size());
  }
  return Sum(tasks, fetch, weights);
}

absl::StatusOr<tf::Tensor> Concatenate(const std::vector<TaskOutcome>& tasks,
                                       size_t fetch) {
  std::vector<tf::Tensor> values;
  for (const TaskOutcome& task : tasks) values.push_back(task.fetches[fetch]);
  tf::Tensor result;
  TF_RETURN_IF_ERROR(tf::tensor::Concat(values, &result));
  return result;
}

absl::StatusOr<tf::Tensor> Stack(const std::vector<TaskOutcome>& tasks, size_t fetch) {
  std::vector<tf::Tensor> rows;
  for (const TaskOutcome& task : tasks) {
    const tf::Tensor& value = task.fetches[fetch];
    tf::TensorShape shape = value.shape();
    shape.InsertDim(0, 1);
    tf::Tensor row;
    if (!row.CopyFrom(value, shape)) return absl::InternalError("reshape failed");
    rows.push_back(row);
  }
  tf::Tensor result;
  TF_RETURN_IF_ERROR(tf::tensor::Concat(rows, &result));
  return result;
}

const tf::Tensor& First(const std::vector<TaskOutcome>& tasks, size_t fetch) {
  for (auto task = tasks.rbegin(); task != tasks.rend(); ++task) {
    if (task->learner == 0) return task->fetches[fetch];
  }
  return tasks[0].fetches[fetch];
}

// Returns the tasks' parts of all rows, to that power.
std::vector<double> Shares(const std::vector<TaskOutcome>& tasks, int power) {
  double rows = 0;
  for (const TaskOutcome& task : tasks) rows += static_cast<double>(task.rows);
  std::vector<double> shares;
  for (const TaskOutcome& task : tasks) {
    shares.push_back(std::pow(static_cast<double>(task.rows) / rows, power));
  }
  return shares;
}

// Returns the values times r^-exponent.
absl::StatusOr<std::vector<tf::Tensor>> Rescaled(const std::vector<TaskOutcome>& tasks,
                                                 size_t fetch, int exponent) {
  std::vector<tf::Tensor> values;
  const std::vector<double> shares = Shares(tasks, exponent);
  for (size_t k = 0; k < tasks.size(); ++k) {
    values.push_back(tasks[k].fetches[fetch]);
    if (exponent == 0 || !CanSum(values[k].dtype())) continue;
    TF_ASSIGN_OR_RETURN(values[k], Sum({tasks[k]}, fetch, {shares[k]}));
  }
  return values;
}

template <typename T>
absl::StatusOr<tf::Tensor> ConcatenateOn(const std::vector<tf::Tensor>& values,
                                         int axis) {
  tf::TensorShape shape = values[0].shape();
  int64_t before = 1, after = 1, rows = 0;
  for (int d = 0; d < axis; ++d) before *= shape.dim_size(d);
  for (int d = axis + 1; d < shape.dims(); ++d) after *= shape.dim_size(d);
  for (const tf::Tensor& value : values) rows += value.dim_size(axis);
  shape.set_dim(axis, rows);
  tf::Tensor result(values[0].dtype(), shape);
  T* to = result.flat<T>().data();
  for (int64_t i = 0; i < before; ++i) {
    for (const tf::Tensor& value : values) {
      const int64_t count = value.dim_size(axis) * after;
      to = std::copy_n(value.flat<T>().data() + i * count, count, to);
    }
  }
  return result;
}

absl::StatusOr<tf::Tensor> Concatenate(const std::vector<tf::Tensor>& values,
                                       int axis) {
  if (axis > 0) {
    switch (values[0].dtype()) {
#define TENSORBOW_CONCATENATE(T)     \
  case tf::DataTypeToEnum<T>::value: \
    return ConcatenateOn<T>(values, axis);
      TF_CALL_POD_TYPES(TENSORBOW_CONCATENATE)
      TENSORBOW_CONCATENATE(tf::tstring)
#undef TENSORBOW_CONCATENATE
      default:
        return absl::UnimplementedError("rows of such a type on a later axis");
    }
  }
  tf::Tensor result;
  TF_RETURN_IF_ERROR(tf::tensor::Concat(values, &result));
  return result;
}

template <typename T, typename Choose>
tf::Tensor Reduce(const std::vector<tf::Tensor>& values, Choose choose) {
  tf::Tensor result = tf::tensor::DeepCopy(values[0]);
  auto out = result.flat<T>();
  for (size_t k = 1; k < values.size(); ++k) {
    const auto value = values[k].flat<T>();
    for (int64_t i = 0; i < out.size(); ++i) out(i) = choose(out(i), value(i));
  }
  return result;
}

absl::StatusOr<tf::Tensor> Extreme(const std::vector<tf::Tensor>& values,
                                   bool largest) {
  switch (values[0].dtype()) {
#define TENSORBOW_REDUCE(T)                               \
  case tf::DataTypeToEnum<T>::value:                      \
    return Reduce<T>(values, [largest](T a, T b) {        \
      return a != a || (largest ? a > b : a < b) ? a : b; \
    });
    TF_CALL_REAL_NUMBER_TYPES(TENSORBOW_REDUCE)
#undef TENSORBOW_REDUCE
    default:
      return absl::InternalError("not a type with an order");
  }
}

// Returns the counts of all rows: the sum of those of the first power.
template <typename T>
tf::Tensor CountsOf(const std::vector<TaskOutcome>& tasks, size_t fetch,
                    const std::vector<int>& powers) {
  tf::Tensor result = tf::tensor::DeepCopy(tasks[0].fetches[fetch]);
  auto out = result.flat<T>();
  for (int64_t i = 0; i < out.size(); ++i) {
    if (powers[i] == 1) {
      for (size_t k = 1; k < tasks.size(); ++k) {
        out(i) += tasks[k].fetches[fetch].flat<T>()(i);
      }
    } else if (powers[i] != 0) {
      const double share = Shares(tasks, powers[i])[0];
      out(i) = static_cast<T>(std::round(static_cast<double>(out(i)) / share));
    }
  }
  return result;
}

absl::StatusOr<tf::Tensor> Counts(const std::vector<TaskOutcome>& tasks, size_t fetch,
                                  const std::vector<int>& powers) {
  const tf::Tensor& first = tasks[0].fetches[fetch];
  if (first.NumElements() != static_cast<int64_t>(powers.size()) ||
      !EqualShapes(tasks, fetch)) {
    return absl::InternalError("learners' counts are of different shapes");
  }
  switch (first.dtype()) {
#define TENSORBOW_COUNTS(T)          \
  case tf::DataTypeToEnum<T>::value: \
    return CountsOf<T>(tasks, fetch, powers);
    TF_CALL_REAL_NUMBER_TYPES(TENSORBOW_COUNTS)
#undef TENSORBOW_COUNTS
    default:
      return absl::InternalError("not a type of counts");
  }
}

bool AreEqual(const tf::Tensor& a, const tf::Tensor& b) {
  return a.SharesBufferWith(b) ||
         (a.shape() == b.shape() && a.tensor_data() == b.tensor_data());
}

// Returns the mean of the tasks' estimates; learner 0's if they are no floats.
absl::StatusOr<tf::Tensor> OfEstimates(const FetchRule& rule,
                                       const std::vector<TaskOutcome>& tasks,
                                       size_t fetch) {
  TF_ASSIGN_OR_RETURN(const std::vector<tf::Tensor> values,
                      Rescaled(tasks, fetch, rule.exponent));
  std::vector<TaskOutcome> scaled;
  bool equal = true;
  for (size_t k = 0; k < tasks.size(); ++k) {
    scaled.push_back({tasks[k].learner, tasks[k].rows, {values[k]}});
    equal &= AreEqual(values[k], values[0]);
  }
  const bool floating = tf::DataTypeIsFloating(values[0].dtype());
  return floating && !equal && EqualShapes(scaled, 0) ? Mean(scaled, 0)
                                                      : First(scaled, 0);
}

absl::StatusOr<tf::Tensor> ByRule(const FetchRule& rule,
                                  const std::vector<TaskOutcome>& tasks, size_t fetch) {
  using How = FetchRule::How;
  if (rule.how == How::kEstimates) return OfEstimates(rule, tasks, fetch);
  if (rule.how == How::kCounts) return Counts(tasks, fetch, rule.powers);
  if (rule.how == How::kSum) {
    if (!EqualShapes(tasks, fetch)) {
      return absl::InternalError("learners' sums are of different shapes");
    }
    return Sum(tasks, fetch, Shares(tasks, rule.exponent));
  }
  TF_ASSIGN_OR_RETURN(const std::vector<tf::Tensor> values,
                      Rescaled(tasks, fetch, rule.exponent));
  switch (rule.how) {
    case How::kRows:
      return Concatenate(values, rule.axis);
    case How::kMax:
    case How::kMin:
      return Extreme(values, rule.how == How::kMax);
    case How::kAll:
      return Reduce<bool>(values, std::logical_and<bool>());
    case How::kAny:
      return Reduce<bool>(values, std::logical_or<bool>());
    default:
      return values[0];
  }
}

}  // namespace

absl::StatusOr<tf::Tensor> Combine(const FetchDeclaration& declaration,
                                   const std::vector<TaskOutcome>& tasks,
                                   size_t fetch) {
  const tf::Tensor& some = tasks[0].fetches[fetch];
  const bool rows_lead =
      std::all_of(tasks.begin(), tasks.end(), [&](const TaskOutcome& task) {
        const tf::Tensor& value = task.fetches[fetch];
        return task.rows > 0 && value.dims() > 0 && value.dim_size(0) == task.rows;
      });
  const bool floating =
      tf::DataTypeIsFloating(some.dtype()) || tf::DataTypeIsComplex(some.dtype());
  if (!declaration.combination.has_value()) {
    if (tasks.size() == 1) return some;
    if (declaration.rule.has_value()) return ByRule(*declaration.rule, tasks, fetch);
    if (declaration.leading_dimension_unknown && rows_lead) {
      return Concatenate(tasks, fetch);
    }
    if (floating && EqualShapes(tasks, fetch)) return Mean(tasks, fetch);
    return First(tasks, fetch);
  }

  auto refuse = [&](absl::string_view wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("combine= cannot be applied to fetch '", declaration.name,
                     "' of type ", tf::DataTypeString(some.dtype()), " and shape ",
                     some.shape().DebugString(), ": it wants ", wanted));
  };
  switch (*declaration.combination) {
    case Combination::kFirst:
      return First(tasks, fetch);
    case Combination::kConcat:
      if (some.dims() == 0) return refuse("a tensor with rows");
      return Concatenate(tasks, fetch);
    case Combination::kStack:
      if (!EqualShapes(tasks, fetch)) return refuse("equal shapes in all tasks");
      return Stack(tasks, fetch);
    case Combination::kMean:
      if (!floating || !EqualShapes(tasks, fetch)) {
        return refuse("floating-point values of equal shapes in all tasks");
      }
      return Mean(tasks, fetch);
    case Combination::kSum:
      if (!CanSum(some.dtype()) || !EqualShapes(tasks, fetch)) {
        return refuse("numbers of equal shapes in all tasks");
      }
      return Sum(tasks, fetch, std::vector<double>(tasks.size(), 1.0));
  }
  return absl::InternalError("unknown combination");
}

}  // namespace tensorbow
