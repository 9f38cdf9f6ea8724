#include "cc/central_model/central_model.h"

#include <cstring>
#include <type_traits>

#include "cc/support/vectorise.h"

namespace tensorbow {
namespace {

template <typename To, typename From>
void Convert(const From* from, int64_t size, To* to) {
  if constexpr (std::is_same_v<To, From>) {
    if (size > 0) std::memcpy(to, from, size * sizeof(To));
  } else {
    for (int64_t i = 0; i < size; ++i) to[i] = static_cast<To>(from[i]);
  }
}

template <typename S, typename A = Accumulator<S>>
TENSORBOW_INLINE void Move(const S* z, A d, int64_t n, A* average) {
  for (int64_t i = 0; i < n; ++i) {
    average[i] = d * average[i] + (1 - d) * static_cast<A>(z[i]);
  }
}
TENSORBOW_VECTORISED void MoveAverage(const float* z, float d, int64_t n,
                                      float* average) {
  Move<float>(z, d, n, average);
}
TENSORBOW_VECTORISED void MoveAverage(const double* z, double d, int64_t n,
                                      double* average) {
  Move<double>(z, d, n, average);
}
TENSORBOW_VECTORISED void MoveAverage(const Half* z, float d, int64_t n,
                                      float* average) {
  Move<Half>(z, d, n, average);
}
TENSORBOW_VECTORISED void MoveAverage(const Bfloat16* z, float d, int64_t n,
                                      float* average) {
  Move<Bfloat16>(z, d, n, average);
}

}  // namespace

CentralModel::Variable::Variable(ElementType type, int64_t size, int num_values,
                                 bool keeps_average, double ema_decay)
    : type_(type),
      size_(size),
      ema_decay_(ema_decay),
      up_to_date_with_(NumSlices(size), 0) {
  const int64_t size_bytes = size * AccumulatorSizeBytes(type);
  for (int i = 0; i < num_values; ++i) z_[i] = AlignedBuffer(size_bytes);
  if (keeps_average) average_ = AlignedBuffer(size_bytes);
}

void CentralModel::Variable::MarkUpToDate(int s) {
  if (up_to_date(s)) return;
  up_to_date_with_[s] = iterations_;
  if (ema_decay_ == 0) return;
  const double d = Decay(ema_decay_, iterations_);
  const Slice part = slice(s);
  WithStorageType(type_, [&](auto* storage) {
    using A = Accumulator<std::remove_pointer_t<decltype(storage)>>;
    MoveAverage(z<A>() + part.begin, static_cast<A>(d), part.size(),
                average<A>() + part.begin);
  });
}

void CentralModel::Variable::AverageNext(int s, const void* values) {
  up_to_date_with_[s] = iterations_ + 1;
  if (ema_decay_ == 0) return;
  const double d = Decay(ema_decay_, iterations_ + 1);
  const Slice part = slice(s);
  WithStorageType(type_, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    MoveAverage(static_cast<const S*>(values), static_cast<A>(d), part.size(),
                average<A>() + part.begin);
  });
}

void CentralModel::Variable::Resume(int64_t iterations, int64_t averaged) {
  iterations_ = iterations;
  std::fill(up_to_date_with_.begin(), up_to_date_with_.end(), averaged);
  ++version_;
  forgotten_at_ = -1;
  if (previous<void>() == nullptr) return;
  WithStorageType(type_, [&](auto* storage) {
    using A = Accumulator<std::remove_pointer_t<decltype(storage)>>;
    if (std::equal(z<A>(), z<A>() + size_, previous<A>())) forgotten_at_ = iterations;
  });
}

int CentralModel::Add(ElementType type, int64_t size) {
  const int num_values = keeps_previous() ? 2 : keeps_z() ? 1 : 0;
  variables_.emplace_back(type, size, num_values, keeps_average(), ema_decay_);
  return num_variables() - 1;
}

void CentralModel::Assign(int variable, const void* values) {
  Variable& v = variables_[variable];
  WithStorageType(v.type_, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    for (AlignedBuffer* kept : {&v.z_[0], &v.z_[1], &v.average_}) {
      if (kept->data() == nullptr) continue;
      Convert(static_cast<const S*>(values), v.size_, kept->as<Accumulator<S>>());
    }
  });
  v.Resume(0, 0);
}

void CentralModel::ForgetMomentum(int variable) {
  Variable& v = variables_[variable];
  if (v.previous<void>() == nullptr) return;
  WithStorageType(v.type_, [&](auto* storage) {
    using A = Accumulator<std::remove_pointer_t<decltype(storage)>>;
    Convert(v.z<A>(), v.size_, v.previous<A>());
  });
  v.forgotten_at_ = v.iterations_;
  ++v.version_;
}

void CentralModel::CopyTo(int variable, Which which, void* values) const {
  const Variable& v = variables_[variable];
  WithStorageType(v.type_, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    Convert(which == Which::kAverage ? v.average<A>() : v.z<A>(), v.size_,
            static_cast<S*>(values));
  });
}

}  // namespace tensorbow
