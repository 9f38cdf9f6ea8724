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

CentralModel::Variable::Variable(ElementType type, int64_t size, double ema_decay)
    : type_(type), size_(size), ema_decay_(ema_decay) {
  for (AlignedBuffer& z : z_) z = AlignedBuffer(size * AccumulatorSizeBytes(type));
  if (ema_decay > 0) {
    average_ = AlignedBuffer(size * AccumulatorSizeBytes(type));
    taken_in_.assign(num_slices(), 0);
  }
}

void CentralModel::Variable::UpdateAverage(int s) {
  const double d = Decay(ema_decay_, iterations_);
  const Slice part = slice(s);
  WithStorageType(type_, [&](auto* storage) {
    using A = Accumulator<std::remove_pointer_t<decltype(storage)>>;
    MoveAverage(current<A>() + part.begin, static_cast<A>(d), part.size(),
                average_.template as<A>() + part.begin);
  });
  taken_in_[s] = iterations_;
}

void CentralModel::Variable::TakeInNext(int s, const void* values) {
  const int64_t iterations = iterations_ + 1;
  const double d = Decay(ema_decay_, iterations);
  const Slice part = slice(s);
  WithStorageType(type_, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    MoveAverage(static_cast<const S*>(values), static_cast<A>(d), part.size(),
                average_.template as<A>() + part.begin);
  });
  taken_in_[s] = iterations;
}

int CentralModel::Add(ElementType type, int64_t size) {
  variables_.emplace_back(type, size, ema_decay_);
  return num_variables() - 1;
}

void CentralModel::Assign(int variable, const void* values) {
  Variable& v = variables_[variable];
  WithStorageType(v.type_, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    for (AlignedBuffer* z : {&v.z_[0], &v.z_[1], &v.average_}) {
      if (z->data() == nullptr) continue;
      Convert(static_cast<const S*>(values), v.size_, z->as<Accumulator<S>>());
    }
  });
  v.GoOnFrom(0);
}

void CentralModel::Follow(int variable, const void* values) {
  Variable& v = variables_[variable];
  WithStorageType(v.type_, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    for (AlignedBuffer& z : v.z_) {
      Convert(static_cast<const S*>(values), v.size_, z.as<Accumulator<S>>());
    }
  });
}

void CentralModel::ForgetMomentum(int variable) {
  Variable& v = variables_[variable];
  WithStorageType(v.type_, [&](auto* storage) {
    using A = Accumulator<std::remove_pointer_t<decltype(storage)>>;
    Convert(v.current<A>(), v.size_, v.other<A>());
  });
  ++v.version_;
}

void CentralModel::CopyTo(int variable, Which which, void* values) {
  Variable& v = variables_[variable];
  const bool average = which == Which::kAverage && v.ema_decay_ > 0;
  WithStorageType(v.type_, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    Convert(average ? v.average<A>() : v.current<A>(), v.size_,
            static_cast<S*>(values));
  });
}

}  // namespace tensorbow
