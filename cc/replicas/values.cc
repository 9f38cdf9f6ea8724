#include "cc/replicas/values.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "cc/graph/element_types.h"
#include "tensorflow/core/framework/register_types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// mean ← Σ_j replicas[j] / L, the sum in learner order.
template <typename T, typename Accumulator>
void Mean(const std::vector<tf::Tensor>& replicas, void* mean) {
  const int64_t size = replicas[0].NumElements();
  const Accumulator count(static_cast<float>(replicas.size()));
  for (int64_t i = 0; i < size; ++i) {
    const T first = static_cast<const T*>(replicas[0].data())[i];
    bool equal = true;  // then the mean is exactly that, whatever their number
    Accumulator sum(0);
    for (const tf::Tensor& replica : replicas) {
      const T value = static_cast<const T*>(replica.data())[i];
      equal &= value == first;
      sum += static_cast<Accumulator>(value);
    }
    static_cast<T*>(mean)[i] = equal ? first : static_cast<T>(sum / count);
  }
}

// sum ← Σ_j replicas[j], in learner order.
template <typename T>
void Sum(const std::vector<tf::Tensor>& replicas, void* sum) {
  const int64_t size = replicas[0].NumElements();
  for (int64_t i = 0; i < size; ++i) {
    T total(0);
    for (const tf::Tensor& replica : replicas) {
      total += static_cast<const T*>(replica.data())[i];
    }
    static_cast<T*>(sum)[i] = total;
  }
}

}  // namespace

absl::StatusOr<ModelShape> ModelShapeOf(const std::string& name, const tf::Tensor& t) {
  switch (t.dtype()) {
    case tf::DT_FLOAT:
    case tf::DT_DOUBLE:
    case tf::DT_HALF:
    case tf::DT_BFLOAT16:
      return ModelShape{ElementTypeOf(t.dtype()), t.NumElements()};
    case tf::DT_COMPLEX64:
      return ModelShape{ElementType::kFloat32, 2 * t.NumElements()};
    case tf::DT_COMPLEX128:
      return ModelShape{ElementType::kFloat64, 2 * t.NumElements()};
    default:
      return absl::UnimplementedError(absl::StrCat(
          "Trainable variable '", name, "' has type ", tf::DataTypeString(t.dtype()),
          "; model averaging knows float, double, half, bfloat16 and complex types. "
          "Mark it trainable=False or train with one learner."));
  }
}

Aggregate MeanOf(tf::DataType dtype) {
  switch (dtype) {
    case tf::DT_FLOAT:
      return &Mean<float, float>;
    case tf::DT_DOUBLE:
      return &Mean<double, double>;
    case tf::DT_HALF:
      return &Mean<Eigen::half, float>;
    case tf::DT_BFLOAT16:
      return &Mean<tf::bfloat16, float>;
    case tf::DT_COMPLEX64:
      return &Mean<tf::complex64, tf::complex64>;
    case tf::DT_COMPLEX128:
      return &Mean<tf::complex128, tf::complex128>;
    default:
      return nullptr;
  }
}

Aggregate SumOf(tf::DataType dtype) {
  switch (dtype) {
#define TENSORBOW_SUM(T)             \
  case tf::DataTypeToEnum<T>::value: \
    return &Sum<T>
    TENSORBOW_SUM(float);
    TENSORBOW_SUM(double);
    TENSORBOW_SUM(Eigen::half);
    TENSORBOW_SUM(tf::bfloat16);
    TENSORBOW_SUM(tf::complex64);
    TENSORBOW_SUM(tf::complex128);
    TENSORBOW_SUM(int8_t);
    TENSORBOW_SUM(uint8_t);
    TENSORBOW_SUM(int16_t);
    TENSORBOW_SUM(tf::uint16);
    TENSORBOW_SUM(int32_t);
    TENSORBOW_SUM(tf::uint32);
    TENSORBOW_SUM(int64_t);
    TENSORBOW_SUM(tf::uint64);
#undef TENSORBOW_SUM
    default:
      return nullptr;
  }
}

void GiveOwnKey(int learner, tf::Tensor* state) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  const int64_t words = state->NumElements();
  if (words == 0) return;
  const uint64_t offset = kOdd * static_cast<uint64_t>(learner);
  if (state->dtype() == tf::DT_INT64) {
    auto& key = state->flat<int64_t>()(words - 1);
    key = static_cast<int64_t>(static_cast<uint64_t>(key) + offset);
  } else if (state->dtype() == tf::DT_UINT64) {
    state->flat<tf::uint64>()(words - 1) += offset;
  }
}

}  // namespace tensorbow
