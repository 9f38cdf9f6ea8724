#include "cc/feeds/fetches.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
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

// Whether the values differ in their number of rows only.
bool CanConcatenate(const std::vector<TaskOutcome>& tasks, size_t fetch) {
  const tf::Tensor& first = tasks[0].fetches[fetch];
  return first.dims() > 0 &&
         std::all_of(tasks.begin(), tasks.end(), [&](const TaskOutcome& task) {
           const tf::Tensor& value = task.fetches[fetch];
           if (value.dims() != first.dims()) return false;
           for (int d = 1; d < first.dims(); ++d) {
             if (value.dim_size(d) != first.dim_size(d)) return false;
           }
           return true;
         });
}

// sum_k weights[k] · values[k], accumulated in task order.
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
  for (int64_t i = 0; i < out.size(); ++i) {
    Accumulator sum(0);
    for (size_t k = 0; k < values.size(); ++k) {
      sum += Accumulator(weights[k]) * static_cast<Accumulator>(values[k][i]);
    }
    out(i) = static_cast<T>(sum);
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
    if (declaration.proven.has_value()) {
      switch (*declaration.proven) {
        case Combination::kConcat:
          if (CanConcatenate(tasks, fetch)) return Concatenate(tasks, fetch);
          break;
        case Combination::kMean:
          if (floating && EqualShapes(tasks, fetch)) return Mean(tasks, fetch);
          break;
        case Combination::kSum:
          if (CanSum(some.dtype()) && EqualShapes(tasks, fetch)) {
            return Sum(tasks, fetch, std::vector<double>(tasks.size(), 1.0));
          }
          break;
        default:
          return First(tasks, fetch);
      }
    }
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
