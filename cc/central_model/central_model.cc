#include "cc/central_model/central_model.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace tensorbow {
namespace {

template <typename To, typename From>
void Convert(const From* from, int64_t size, To* to) {
  if constexpr (std::is_same_v<To, From>) {
    std::memcpy(to, from, size * sizeof(To));
  } else {
    for (int64_t i = 0; i < size; ++i) to[i] = static_cast<To>(from[i]);
  }
}

}  // namespace

CentralModel::Variable::Variable(ElementType type, int64_t size)
    : type_(type), size_(size) {
  for (int64_t begin = 0; begin < size; begin += kSliceElements) {
    slices_.push_back({begin, std::min(size, begin + kSliceElements)});
  }
  for (AlignedBuffer& z : z_) z = AlignedBuffer(size * AccumulatorSizeBytes(type));
}

int CentralModel::Add(ElementType type, int64_t size) {
  variables_.emplace_back(type, size);
  return num_variables() - 1;
}

void CentralModel::Assign(int variable, const void* values) {
  Variable& v = variables_[variable];
  WithStorageType(v.type_, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    for (AlignedBuffer& z : v.z_) {
      Convert(static_cast<const S*>(values), v.size_, z.as<A>());
    }
  });
}

void CentralModel::ForgetMomentum(int variable) {
  Variable& v = variables_[variable];
  WithStorageType(v.type_, [&](auto* storage) {
    using A = Accumulator<std::remove_pointer_t<decltype(storage)>>;
    for (int s = 0; s < v.num_slices(); ++s) {
      Convert(v.current<A>(s), v.slice(s).size(), v.previous<A>(s));
      Convert(v.current<A>(s), v.slice(s).size(), v.next<A>(s));
    }
  });
}

void CentralModel::CopyTo(int variable, void* values) const {
  const Variable& v = variables_[variable];
  WithStorageType(v.type_, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    for (int s = 0; s < v.num_slices(); ++s) {
      Convert(v.current<Accumulator<S>>(s), v.slice(s).size(),
              static_cast<S*>(values) + v.slice(s).begin);
    }
  });
}

}  // namespace tensorbow
