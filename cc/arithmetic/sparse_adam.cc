#include "cc/arithmetic/sparse_adam.h"

#include <algorithm>

#include "cc/arithmetic/correction.h"
#include "cc/support/vectorise.h"

namespace tensorbow {
namespace {

// The number of elements of w, m, v and z that stay in a core's first-level cache.
constexpr int64_t kBlock = 1024;

template <typename T>
TENSORBOW_INLINE void DecayLoop(SparseAdamStep<T> step, int64_t n, T* __restrict m,
                                T* __restrict v) {
  for (int64_t i = 0; i < n; ++i) step.Decay(m[i], v[i]);
}

template <typename T>
TENSORBOW_INLINE void AddLoop(int64_t n, const T* __restrict more, T* __restrict slot) {
  for (int64_t i = 0; i < n; ++i) slot[i] = slot[i] + more[i];
}

template <typename T>
TENSORBOW_INLINE void StepLoop(SparseAdamStep<T> step, int64_t n, const T* __restrict m,
                               const T* __restrict v, Pull<T> pull, T* __restrict w) {
  if (pull.z == nullptr) {
    for (int64_t i = 0; i < n; ++i) w[i] = step(w[i], m[i], v[i]);
    return;
  }
  using A = Accumulator<T>;
  const A* __restrict z = pull.z;
  for (int64_t i = 0; i < n; ++i) {
    const T before = w[i];
    const T updated = step(before, m[i], v[i]);
    w[i] = static_cast<T>(
        Corrected(static_cast<A>(updated), static_cast<A>(before), z[i], pull.alpha));
  }
}

// A function for each type, since target_clones does not work on templates.
#define TENSORBOW_LOOPS(T)                                                             \
  TENSORBOW_VECTORISED void Decay(const SparseAdamStep<T>& step, int64_t n, T* m,      \
                                  T* v) {                                              \
    DecayLoop(step, n, m, v);                                                          \
  }                                                                                    \
  TENSORBOW_VECTORISED void Add(int64_t n, const T* more, T* slot) {                   \
    AddLoop(n, more, slot);                                                            \
  }                                                                                    \
  TENSORBOW_VECTORISED void Step(const SparseAdamStep<T>& step, int64_t n, const T* m, \
                                 const T* v, const Pull<T>& pull, T* w) {              \
    StepLoop(step, n, m, v, pull, w);                                                  \
  }
TENSORBOW_LOOPS(float)
TENSORBOW_LOOPS(double)
TENSORBOW_LOOPS(Half)
TENSORBOW_LOOPS(Bfloat16)

}  // namespace

template <typename T>
SparseAdam<T>::SparseAdam(const SparseAdamStep<T>& step,
                          const std::vector<int64_t>& rows, int64_t row_size,
                          RowMoments<T> moments)
    : step_(step), row_size_(row_size), moments_(moments) {
  rows_.reserve(rows.size());
  for (size_t place = 0; place < rows.size(); ++place) {
    rows_.emplace_back(rows[place], place);
  }
  std::sort(rows_.begin(), rows_.end());
}

template <typename T>
void SparseAdam<T>::Update(int64_t begin, int64_t end, Pull<T> pull, T* w, T* m,
                           T* v) const {
  const Accumulator<T>* const z = pull.z;
  for (; begin < end; begin += kBlock) {
    const int64_t block_end = std::min(end, begin + kBlock);
    const int64_t n = block_end - begin;
    Decay(step_, n, m + begin, v + begin);
    AddMoments(begin, block_end, m, v);
    if (z != nullptr) pull.z = z + begin;
    Step(step_, n, m + begin, v + begin, pull, w + begin);
  }
}

template <typename T>
void SparseAdam<T>::AddMoments(int64_t begin, int64_t end, T* m, T* v) const {
  auto row = std::lower_bound(rows_.begin(), rows_.end(),
                              std::pair<int64_t, int64_t>(begin / row_size_, 0));
  for (; row != rows_.end() && row->first * row_size_ < end; ++row) {
    const int64_t row_begin = row->first * row_size_;
    const int64_t from = std::max(begin, row_begin);
    const int64_t n = std::min(end, row_begin + row_size_) - from;
    const int64_t offset = row->second * row_size_ + (from - row_begin);
    Add(n, moments_.m + offset, m + from);
    Add(n, moments_.v + offset, v + from);
  }
}

template class SparseAdam<float>;
template class SparseAdam<double>;
template class SparseAdam<Half>;
template class SparseAdam<Bfloat16>;

}  // namespace tensorbow
