#include "cc/training/division_evidence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "tensorflow/core/framework/tensor_util.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr int64_t kChunk = 4096;
constexpr int64_t kSketch = 64 * 1024;  // elements

bool IsNumber(tf::DataType dtype) {
  switch (dtype) {
    case tf::DT_FLOAT:
    case tf::DT_DOUBLE:
    case tf::DT_HALF:
    case tf::DT_BFLOAT16:
    case tf::DT_INT8:
    case tf::DT_UINT8:
    case tf::DT_INT16:
    case tf::DT_UINT16:
    case tf::DT_INT32:
    case tf::DT_UINT32:
    case tf::DT_INT64:
    case tf::DT_UINT64:
    case tf::DT_COMPLEX64:
    case tf::DT_COMPLEX128:
      return true;
    default:
      return false;
  }
}

// Real numbers in the tensor: a complex one is two.
int64_t Size(const tf::Tensor& tensor) {
  const bool complex =
      tensor.dtype() == tf::DT_COMPLEX64 || tensor.dtype() == tf::DT_COMPLEX128;
  return tensor.NumElements() * (complex ? 2 : 1);
}

template <typename T>
void ReadAs(const tf::Tensor& tensor, int64_t begin, int64_t n, double* out) {
  const T* const values = reinterpret_cast<const T*>(tensor.data()) + begin;
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<double>(values[i]);
}

void Read(const tf::Tensor& tensor, int64_t begin, int64_t n, double* out) {
  switch (tensor.dtype()) {
    case tf::DT_FLOAT:
    case tf::DT_COMPLEX64:
      return ReadAs<float>(tensor, begin, n, out);
    case tf::DT_DOUBLE:
    case tf::DT_COMPLEX128:
      return ReadAs<double>(tensor, begin, n, out);
    case tf::DT_HALF:
      return ReadAs<Eigen::half>(tensor, begin, n, out);
    case tf::DT_BFLOAT16:
      return ReadAs<tf::bfloat16>(tensor, begin, n, out);
    case tf::DT_INT8:
      return ReadAs<int8_t>(tensor, begin, n, out);
    case tf::DT_UINT8:
      return ReadAs<uint8_t>(tensor, begin, n, out);
    case tf::DT_INT16:
      return ReadAs<int16_t>(tensor, begin, n, out);
    case tf::DT_UINT16:
      return ReadAs<uint16_t>(tensor, begin, n, out);
    case tf::DT_INT32:
      return ReadAs<int32_t>(tensor, begin, n, out);
    case tf::DT_UINT32:
      return ReadAs<uint32_t>(tensor, begin, n, out);
    case tf::DT_INT64:
      return ReadAs<int64_t>(tensor, begin, n, out);
    default:
      return ReadAs<uint64_t>(tensor, begin, n, out);
  }
}

// A random-looking number of another (splitmix64).
uint64_t Mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// How far the mean over rows and the sum of the shards are from the whole, relative.
struct Errors {
  double mean = 0;
  double sum = 0;
};

Errors Compare(const tf::Tensor& whole, const std::vector<tf::Tensor>& shards,
               const std::vector<int64_t>& rows) {
  const double all =
      static_cast<double>(std::accumulate(rows.begin(), rows.end(), int64_t{0}));
  double squares = 0, mean_errors = 0, sum_errors = 0;
  std::vector<double> of_whole(kChunk), of_shard(kChunk), mean(kChunk), sum(kChunk);
  for (int64_t begin = 0; begin < Size(whole); begin += kChunk) {
    const int64_t n = std::min(kChunk, Size(whole) - begin);
    Read(whole, begin, n, of_whole.data());
    std::fill(mean.begin(), mean.end(), 0.0);
    std::fill(sum.begin(), sum.end(), 0.0);
    for (size_t k = 0; k < shards.size(); ++k) {
      Read(shards[k], begin, n, of_shard.data());
      for (int64_t i = 0; i < n; ++i) {
        mean[i] += rows[k] / all * of_shard[i];
        sum[i] += of_shard[i];
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      squares += of_whole[i] * of_whole[i];
      mean_errors += (mean[i] - of_whole[i]) * (mean[i] - of_whole[i]);
      sum_errors += (sum[i] - of_whole[i]) * (sum[i] - of_whole[i]);
    }
  }
  const auto relative = [squares](double errors) {
    return errors == 0 ? 0 : std::sqrt(errors / squares);
  };
  return {relative(mean_errors), relative(sum_errors)};
}

bool EqualShapes(const tf::Tensor& whole, const std::vector<tf::Tensor>& shards) {
  return std::all_of(shards.begin(), shards.end(), [&whole](const tf::Tensor& shard) {
    return shard.shape() == whole.shape();
  });
}

// The shards' values one after the other; nothing if they are not of such shapes.
std::optional<tf::Tensor> Concatenated(const tf::Tensor& whole,
                                       const std::vector<tf::Tensor>& shards) {
  if (whole.dims() == 0) return std::nullopt;
  int64_t rows = 0;
  for (const tf::Tensor& shard : shards) {
    if (shard.dims() != whole.dims()) return std::nullopt;
    for (int d = 1; d < whole.dims(); ++d) {
      if (shard.dim_size(d) != whole.dim_size(d)) return std::nullopt;
    }
    rows += shard.dim_size(0);
  }
  tf::Tensor all;
  if (rows != whole.dim_size(0) || !tf::tensor::Concat(shards, &all).ok()) {
    return std::nullopt;
  }
  return all;
}

// ‖a − b‖ ÷ ‖b‖; what is no number is the same or not.
double Difference(const tf::Tensor& a, const tf::Tensor& b) {
  if (a.shape() != b.shape()) return INFINITY;
  if (!IsNumber(a.dtype())) {
    if (a.dtype() != tf::DT_STRING && a.dtype() != tf::DT_BOOL) return INFINITY;
    for (int64_t i = 0; i < a.NumElements(); ++i) {
      const bool same = a.dtype() == tf::DT_STRING
                            ? a.flat<tf::tstring>()(i) == b.flat<tf::tstring>()(i)
                            : a.flat<bool>()(i) == b.flat<bool>()(i);
      if (!same) return INFINITY;
    }
    return 0;
  }
  return Compare(b, {a}, {1}).mean;
}

}  // namespace

Products InnerProducts(const std::vector<tf::Tensor>& values) {
  Products products(values.size(), std::vector<double>(values.size(), 0.0));
  std::vector<std::vector<double>> chunks(values.size(), std::vector<double>(kChunk));
  for (int64_t begin = 0; begin < Size(values[0]); begin += kChunk) {
    const int64_t n = std::min(kChunk, Size(values[0]) - begin);
    for (size_t k = 0; k < values.size(); ++k) {
      Read(values[k], begin, n, chunks[k].data());
      for (size_t l = 0; l <= k; ++l) {
        products[k][l] += std::inner_product(chunks[k].begin(), chunks[k].begin() + n,
                                             chunks[l].begin(), 0.0);
      }
    }
  }
  for (size_t k = 0; k < values.size(); ++k) {
    for (size_t l = 0; l < k; ++l) products[l][k] = products[k][l];
  }
  return products;
}

std::optional<tf::Tensor> Change(const tf::Tensor& value, const tf::Tensor& now) {
  if (now.dtype() != value.dtype() || now.NumElements() != value.NumElements()) {
    return std::nullopt;
  }
  tf::Tensor change(value.dtype(), value.shape());
  switch (value.dtype()) {
    case tf::DT_FLOAT:
      change.flat<float>() = value.flat<float>() - now.flat<float>();
      return change;
    case tf::DT_DOUBLE:
      change.flat<double>() = value.flat<double>() - now.flat<double>();
      return change;
    default:
      return std::nullopt;
  }
}

tf::Tensor Times(double factor, const tf::Tensor& values) {
  tf::Tensor product(values.dtype(), values.shape());
  if (values.dtype() == tf::DT_DOUBLE) {
    product.flat<double>() = values.flat<double>() * factor;
  } else {
    product.flat<float>() = values.flat<float>() * static_cast<float>(factor);
  }
  return product;
}

tf::Tensor Sketched(const tf::Tensor& values) {
  const int64_t size = values.NumElements();
  if (!tf::DataTypeIsFloating(values.dtype()) || size <= kSketch) return values;
  // Every block of kSketch elements is turned by a random distance, every element gets
  // a random sign. A group of signs may pass the end, where the sketch begins again.
  constexpr int64_t kGroup = 64;
  std::vector<double> sums(kSketch + kGroup), chunk(kChunk);
  uint64_t turn = 0;
  for (int64_t begin = 0; begin < size; begin += kChunk) {
    if (begin % kSketch == 0) turn = Mixed(~begin);
    const int64_t n = std::min(kChunk, size - begin);
    Read(values, begin, n, chunk.data());
    for (int64_t group = 0; group < n; group += kGroup) {
      const uint64_t signs = Mixed(begin + group);
      double* const to = sums.data() + (turn + begin + group) % kSketch;
      for (int64_t k = 0; k < std::min(n - group, kGroup); ++k) {
        to[k] += (signs >> k) & 1 ? chunk[group + k] : -chunk[group + k];
      }
    }
  }
  for (int64_t k = 0; k < kGroup; ++k) sums[k] += sums[kSketch + k];
  tf::Tensor sketch(tf::DT_DOUBLE, {kSketch});
  std::copy_n(sums.begin(), kSketch, sketch.flat<double>().data());
  return sketch;
}

std::vector<tf::Tensor> Densified(const std::vector<tf::Tensor>& values,
                                  const std::vector<tf::Tensor>& indices) {
  const auto index_at = [](const tf::Tensor& tensor, int64_t i) {
    return tensor.dtype() == tf::DT_INT32 ? int64_t{tensor.flat<int32_t>()(i)}
                                          : tensor.flat<int64_t>()(i);
  };
  std::map<int64_t, int64_t> places;
  int64_t width = 0;
  for (size_t k = 0; k < indices.size(); ++k) {
    for (int64_t i = 0; i < indices[k].NumElements(); ++i) {
      places.emplace(index_at(indices[k], i), places.size());
    }
    if (indices[k].NumElements() > 0) {
      width = Size(values[k]) / indices[k].NumElements();
    }
  }
  std::vector<tf::Tensor> dense;
  std::vector<double> row(width);
  for (size_t k = 0; k < values.size(); ++k) {
    const int64_t count = static_cast<int64_t>(places.size());
    tf::Tensor sum(tf::DT_DOUBLE, {count, width});
    auto out = sum.matrix<double>();
    out.setZero();
    for (int64_t i = 0; i < indices[k].NumElements(); ++i) {
      Read(values[k], i * width, width, row.data());
      const int64_t place = places.at(index_at(indices[k], i));
      for (int64_t d = 0; d < width; ++d) out(place, d) += row[d];
    }
    dense.push_back(std::move(sum));
  }
  return dense;
}

FetchEvidence CompareFetch(const tf::Tensor& whole,
                           const std::vector<tf::Tensor>& shards,
                           const std::vector<int64_t>& rows, bool depends) {
  const bool floating =
      tf::DataTypeIsFloating(whole.dtype()) || tf::DataTypeIsComplex(whole.dtype());
  std::vector<std::pair<Combination, double>> errors;  // in the order of preference
  if (const auto all = Concatenated(whole, shards)) {
    errors.emplace_back(Combination::kConcat, Difference(*all, whole));
  }
  if (EqualShapes(whole, shards)) {
    if (IsNumber(whole.dtype())) {
      const Errors compared = Compare(whole, shards, rows);
      if (floating) errors.emplace_back(Combination::kMean, compared.mean);
      if (depends) errors.emplace_back(Combination::kSum, compared.sum);
    }
    double first = 0;
    for (const tf::Tensor& shard : shards) {
      first = std::max(first, Difference(shard, whole));
    }
    errors.emplace_back(Combination::kFirst, first);
  }
  FetchEvidence evidence;
  const double exactly = Rounding(whole.dtype());
  int exact = 0;
  for (const auto& [rule, error] : errors) {
    if (!(error <= exactly)) continue;
    if (!evidence.rule.has_value()) evidence.rule = rule;
    // A float that is the same everywhere is its own mean.
    exact += rule != Combination::kFirst || *evidence.rule != Combination::kMean;
  }
  evidence.determined = exact == 1;
  return evidence;
}

}  // namespace tensorbow
