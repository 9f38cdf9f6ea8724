#include "cc/synchroniser/ssgd.h"

#include <type_traits>

#include "cc/support/vectorise.h"

namespace tensorbow {
namespace {

// mean = Σ_j values[j] / count, j in order.
template <typename S, typename A = Accumulator<S>>
TENSORBOW_INLINE void Mean(const S* const* values, int count, int64_t n, S* mean) {
  const A scale = A(1) / static_cast<A>(count);
  for (int64_t i = 0; i < n; ++i) {
    A sum = static_cast<A>(values[0][i]);
    for (int j = 1; j < count; ++j) sum += static_cast<A>(values[j][i]);
    mean[i] = static_cast<S>(sum * scale);
  }
}

// The common cases, with the inner loop gone.
template <typename S>
TENSORBOW_INLINE void MeanOf(const S* const* values, int count, int64_t n, S* mean) {
  switch (count) {
    case 2:
      return Mean<S>(values, 2, n, mean);
    case 3:
      return Mean<S>(values, 3, n, mean);
    case 4:
      return Mean<S>(values, 4, n, mean);
    default:
      return Mean<S>(values, count, n, mean);
  }
}

TENSORBOW_VECTORISED void Average(const float* const* values, int count, int64_t n,
                                  float* mean) {
  MeanOf<float>(values, count, n, mean);
}
TENSORBOW_VECTORISED void Average(const double* const* values, int count, int64_t n,
                                  double* mean) {
  MeanOf<double>(values, count, n, mean);
}
TENSORBOW_VECTORISED void Average(const Half* const* values, int count, int64_t n,
                                  Half* mean) {
  MeanOf<Half>(values, count, n, mean);
}
TENSORBOW_VECTORISED void Average(const Bfloat16* const* values, int count, int64_t n,
                                  Bfloat16* mean) {
  MeanOf<Bfloat16>(values, count, n, mean);
}

}  // namespace

void Ssgd::Prepare(const TrainedSet& set) {
  if (num_gradients_ < set.num_gradients()) {
    num_gradients_ = set.num_gradients();
    gradients_ = std::make_unique<Gradient[]>(num_gradients_);
  }
  Reset();
}

void Ssgd::Reset() {
  for (int i = 0; i < num_gradients_; ++i) {
    gradients_[i].values.assign(num_learners(), nullptr);
    gradients_[i].arrived.store(0, std::memory_order_relaxed);
    gradients_[i].read.store(0, std::memory_order_relaxed);
  }
}

bool Ssgd::Reduce(int learner, int gradient, ElementType type, int64_t n,
                  const void* own, void* mean) {
  if (!AwaitTurn(learner)) return false;
  Gradient& g = gradients_[gradient];
  g.values[learner] = own;
  g.arrived.fetch_add(1, std::memory_order_acq_rel);
  gate()->Notify();
  const int expected = participants(learner);
  gate()->Await([&] {
    return g.arrived.load(std::memory_order_acquire) >= expected || Aborted(learner);
  });
  if (g.arrived.load(std::memory_order_acquire) < expected) return false;

  // Nobody can abort this iteration between here and the end: everybody has arrived.
  int count = 0;
  WithStorageType(type, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    std::vector<const S*> values;
    for (const void* v : g.values) {
      if (v != nullptr) values.push_back(static_cast<const S*>(v));
    }
    count = static_cast<int>(values.size());
    Average(values.data(), count, n, static_cast<S*>(mean));
  });
  g.read.fetch_add(1, std::memory_order_acq_rel);
  gate()->Notify();
  gate()->Await([&] { return g.read.load(std::memory_order_acquire) >= count; });
  return true;
}

void Ssgd::Leaving(int learner) {
  for (int i = 0; i < set()->num_gradients(); ++i) {
    if (gradients_[i].values[learner] == nullptr) {
      gradients_[i].arrived.fetch_add(1, std::memory_order_acq_rel);
    }
  }
  gate()->Notify();
}

void Ssgd::Completing(int present) {
  Reset();
  if (present < 0) return;
  for (int member = 0; member < set()->size(); ++member) {
    central()->Advance(set()->variable(member), set()->weights(present, member));
  }
}

}  // namespace tensorbow
