#include "cc/synchroniser/sma.h"

#include <algorithm>
#include <type_traits>

#include "cc/arithmetic/correction_passes.h"
#include "cc/support/vectorise.h"

namespace tensorbow {
namespace {

// Elements handled at a time: a running sum stays in the first-level cache.
constexpr int64_t kBlock = 1024;

// S is how replicas are stored, A how they are computed with.
template <typename S, typename A = Accumulator<S>>
struct Loops {
  // sum ← sum + α (w − z)
  TENSORBOW_INLINE static void Add(const S* __restrict w, const A* __restrict z,
                                   A alpha, int64_t n, A* __restrict sum) {
    for (int64_t i = 0; i < n; ++i) sum[i] += alpha * (static_cast<A>(w[i]) - z[i]);
  }
  // z_prev ← z + sum + μ (z − z_prev)
  TENSORBOW_INLINE static void Advance(const A* __restrict sum, const A* __restrict z,
                                       A momentum, int64_t n, A* __restrict z_prev) {
    if (momentum == A(0)) {
      for (int64_t i = 0; i < n; ++i) z_prev[i] = z[i] + sum[i];
    } else {
      for (int64_t i = 0; i < n; ++i) {
        z_prev[i] = z[i] + sum[i] + momentum * (z[i] - z_prev[i]);
      }
    }
  }
  // next ← next − α (w − z)
  TENSORBOW_INLINE static void Exclude(const S* __restrict w, const A* __restrict z,
                                       A alpha, int64_t n, A* __restrict next) {
    for (int64_t i = 0; i < n; ++i) next[i] -= alpha * (static_cast<A>(w[i]) - z[i]);
  }
};

// z_prev ← z + Σ_j α (w_j − z) + μ (z − z_prev), j in order; w are `count` replicas.
template <typename S, typename A = Accumulator<S>>
TENSORBOW_INLINE void Average(const S* const* w, int count, const A* z, A alpha,
                              A momentum, int64_t n, A* z_prev) {
  alignas(AlignedBuffer::kCacheLineBytes) A sum[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t size = std::min(kBlock, n - begin);
    CorrectionLoop<S>(w[0] + begin, z + begin, alpha, size, sum);
    for (int j = 1; j < count; ++j) {
      Loops<S>::Add(w[j] + begin, z + begin, alpha, size, sum);
    }
    Loops<S>::Advance(sum, z + begin, momentum, size, z_prev + begin);
  }
}

template <typename S>
struct Passes;

#define TENSORBOW_PASSES(S)                                                            \
  template <>                                                                          \
  struct Passes<S> {                                                                   \
    using A = Accumulator<S>;                                                          \
    TENSORBOW_VECTORISED static void Exclude(const S* w, const A* z, A alpha,          \
                                             int64_t n, A* next) {                     \
      Loops<S>::Exclude(w, z, alpha, n, next);                                         \
    }                                                                                  \
    TENSORBOW_VECTORISED static void Average(const S* const* w, int count, const A* z, \
                                             A alpha, A momentum, int64_t n,           \
                                             A* z_prev) {                              \
      tensorbow::Average<S>(w, count, z, alpha, momentum, n, z_prev);                  \
    }                                                                                  \
  };
TENSORBOW_PASSES(float)
TENSORBOW_PASSES(double)
TENSORBOW_PASSES(Half)
TENSORBOW_PASSES(Bfloat16)
#undef TENSORBOW_PASSES

template <typename S>
S* Weights(const TrainedSet& set, int learner, int member) {
  return static_cast<S*>(set.weights(learner, member));
}

}  // namespace

Sma::Sma(int num_learners, CentralModel* central, std::chrono::microseconds spin,
         double alpha, int64_t period)
    : Synchroniser(num_learners, central, spin), alpha_(alpha), period_(period) {}

bool Sma::Due(const TrainedSet&, int64_t iteration) const {
  return (iteration + 1) % period_ == 0;
}

void Sma::Prepare(const TrainedSet& set) {
  corrections_.resize(central()->num_variables());
  for (int member = 0; member < set.size(); ++member) {
    corrections_[set.variable(member)].resize(num_learners());
  }
}

void Sma::PrepareNext(const TrainedSet& set, int member, int slice) {
  const CentralModel::Variable& v = central()->variable(set.variable(member));
  const CentralModel::Slice part = v.slice(slice);
  WithStorageType(v.type(), [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    std::vector<const S*> w;
    for (int j = 0; j < num_learners(); ++j) {
      w.push_back(Weights<S>(set, j, member) + part.begin);
    }
    Passes<S>::Average(w.data(), num_learners(), v.template current<A>() + part.begin,
                       static_cast<A>(alpha_), static_cast<A>(set.momentum()),
                       part.size(), v.template other<A>() + part.begin);
  });
}

void Sma::Exclude(const TrainedSet& set, int member, const std::vector<int>& absent) {
  const CentralModel::Variable& v = central()->variable(set.variable(member));
  WithStorageType(v.type(), [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    for (int j : absent) {
      Passes<S>::Exclude(Weights<S>(set, j, member), v.template current<A>(),
                         static_cast<A>(alpha_), v.size(), v.template other<A>());
    }
  });
}

void Sma::Remember(int learner, const TrainedSet& set, int member) {
  const CentralModel::Variable& v = central()->variable(set.variable(member));
  AlignedBuffer& correction = corrections_[set.variable(member)][learner];
  WithStorageType(v.type(), [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    if (correction.data() == nullptr) correction = AlignedBuffer(v.size() * sizeof(A));
    Correction<S>(Weights<S>(set, learner, member), v.template current<A>(),
                  static_cast<A>(alpha_), v.size(), correction.as<A>());
  });
}

void Sma::Correct(int learner, const TrainedSet& set, int member, bool remembered) {
  const CentralModel::Variable& v = central()->variable(set.variable(member));
  WithStorageType(v.type(), [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    S* const w = Weights<S>(set, learner, member);
    if (remembered) {
      const A* c = corrections_[set.variable(member)][learner].template as<A>();
      Subtract<S>(c, v.size(), w);
    } else {
      tensorbow::Correct<S>(v.template current<A>(), static_cast<A>(alpha_), v.size(),
                            w);
    }
  });
}

}  // namespace tensorbow
