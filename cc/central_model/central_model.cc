#include "cc/central_model/central_model.h"

#include <cstring>
#include <type_traits>

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

}  // namespace

CentralModel::Variable::Variable(ElementType type, int64_t size)
    : type_(type), size_(size) {
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
    for (AlignedBuffer& z : v.z_) {
      Convert(static_cast<const S*>(values), v.size_, z.as<Accumulator<S>>());
    }
  });
}

void CentralModel::ForgetMomentum(int variable) {
  const Variable& v = variables_[variable];
  WithStorageType(v.type_, [&](auto* storage) {
    using A = Accumulator<std::remove_pointer_t<decltype(storage)>>;
    Convert(v.current<A>(), v.size_, v.other<A>());
  });
}

void CentralModel::CopyTo(int variable, void* values) const {
  const Variable& v = variables_[variable];
  WithStorageType(v.type_, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    Convert(v.current<Accumulator<S>>(), v.size_, static_cast<S*>(values));
  });
}

}  // namespace tensorbow
