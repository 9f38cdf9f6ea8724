#include "cc/synchroniser/algorithms/adaptive.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>
#include <utility>

#include "cc/support/aligned_buffer.h"
#include "cc/support/flush_denormals.h"
#include "cc/support/vectorise.h"

namespace tensorbow {
namespace {

// The elements handled at a time: a running sum stays in the first-level cache.
constexpr int64_t kBlock = 1024;

// S is the storage type of replicas, A the accumulation type.

// Σ_j p_j w_j is computed as (Σ_j p_j) z + Σ_j p_j (w_j − z): the mean of replicas that
// equal z is z, bit for bit.

// change ← Σ_j p_j (w_j − z)
template <typename S, typename A = Accumulator<S>>
TENSORBOW_INLINE void Change(const S* const* w, const A* p, int count, int64_t begin,
                             const A* __restrict z, int64_t n, A* __restrict change) {
  for (int64_t i = 0; i < n; ++i) change[i] = A(0);
  for (int j = 0; j < count; ++j) {
    const S* __restrict wj = w[j] + begin;
    for (int64_t i = 0; i < n; ++i) {
      change[i] += p[j] * (static_cast<A>(wj[i]) - z[i]);
    }
  }
}

// next ← (Σ_j p_j) z + change + μ (z − next)
template <typename A>
TENSORBOW_INLINE void Next(const A* __restrict change, const A* __restrict z,
                           A sum_of_p, A momentum, int64_t n, A* __restrict next) {
  for (int64_t i = 0; i < n; ++i) {
    const A step = momentum == A(0) ? A(0) : momentum * (z[i] - next[i]);
    next[i] = sum_of_p * z[i] + change[i] + step;
  }
}

template <typename S, typename A = Accumulator<S>>
TENSORBOW_INLINE void Merged(const S* const* w, const A* p, int count,
                             const A* __restrict z, A sum_of_p, A momentum, int64_t n,
                             A* __restrict next) {
  alignas(AlignedBuffer::kCacheLineBytes) A change[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t size = std::min(kBlock, n - begin);
    Change<S>(w, p, count, begin, z + begin, size, change);
    Next<A>(change, z + begin, sum_of_p, momentum, size, next + begin);
  }
}

// target_clones works on plain functions only: one for each type.
template <typename S>
struct Passes;
#define TENSORBOW_PASSES(S)                                                           \
  template <>                                                                         \
  struct Passes<S> {                                                                  \
    using A = Accumulator<S>;                                                         \
    TENSORBOW_VECTORISED static void Change(const S* const* w, const A* p, int count, \
                                            int64_t begin, const A* z, int64_t n,     \
                                            A* change) {                              \
      tensorbow::Change<S>(w, p, count, begin, z, n, change);                         \
    }                                                                                 \
    TENSORBOW_VECTORISED static void Next(const A* change, const A* z, A sum_of_p,    \
                                          A momentum, int64_t n, A* next) {           \
      tensorbow::Next<A>(change, z, sum_of_p, momentum, n, next);                     \
    }                                                                                 \
    TENSORBOW_VECTORISED static void Merged(const S* const* w, const A* p, int count, \
                                            const A* z, A sum_of_p, A momentum,       \
                                            int64_t n, A* next) {                     \
      tensorbow::Merged<S>(w, p, count, z, sum_of_p, momentum, n, next);              \
    }                                                                                 \
  };
TENSORBOW_PASSES(float)
TENSORBOW_PASSES(double)
TENSORBOW_PASSES(Half)
TENSORBOW_PASSES(Bfloat16)
#undef TENSORBOW_PASSES

// Returns Σ_j p_j, which is 1 but for rounding and perturbation.
double SumOf(const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  return std::abs(sum - 1) < 1e-12 ? 1 : sum;
}

// The replicas with a weight, and their weights.
template <typename S>
struct Weighed {
  Weighed(const std::vector<void*>& replicas, const std::vector<double>& weights) {
    for (size_t j = 0; j < replicas.size(); ++j) {
      if (weights[j] == 0) continue;
      w.push_back(static_cast<const S*>(replicas[j]));
      p.push_back(static_cast<Accumulator<S>>(weights[j]));
    }
  }
  int count() const { return static_cast<int>(w.size()); }

  std::vector<const S*> w;
  std::vector<Accumulator<S>> p;
};

// Sets `out` to Σ_j p_j w_j + μ (z − out) of a variable.
void MergeVariable(const CentralModel::Variable& v, const std::vector<void*>& replicas,
                   const std::vector<double>& weights, double momentum, void* out) {
  WithStorageType(v.type(), [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    const Weighed<S> all(replicas, weights);
    Passes<S>::Merged(all.w.data(), all.p.data(), all.count(), v.z<A>(),
                      static_cast<A>(SumOf(weights)), static_cast<A>(momentum),
                      v.size(), static_cast<A*>(out));
  });
}

// Returns ‖w‖² of a learner's replica of a variable.
double SquaredNorm(const CentralModel::Variable& v, const void* replica) {
  double sum = 0;
  WithStorageType(v.type(), [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    const S* const w = static_cast<const S*>(replica);
    for (int64_t i = 0; i < v.size(); ++i) {
      const double value = static_cast<Accumulator<S>>(w[i]);
      sum += value * value;
    }
  });
  return sum;
}

void MarkUpToDate(CentralModel::Variable* v) {
  for (int s = 0; s < v->num_slices(); ++s) v->MarkUpToDate(s);
}

}  // namespace

Adaptive::Adaptive(const AdaptiveOptions& options, int num_learners,
                   CentralModel* central, Hosts* hosts)
    : central_(central), batches_(options, num_learners) {
  if (hosts != nullptr) chunks_ = std::make_unique<HostChunks>(hosts, central);
  traits_.averages = Traits::Averages::kMergedModels;
  traits_.momentum = options.momentum;
}

std::string Adaptive::Collect(int variable, const std::vector<void*>& replicas,
                              const std::vector<int>&) {
  CentralModel::Variable& v = central_->variable(variable);
  if (chunks_ == nullptr && batches_.num_updates() > 0) {
    MergeVariable(v, replicas, batches_.Weights(/*small=*/false), /*momentum=*/0,
                  v.average<void>());
  } else {
    WithStorageType(v.type(), [&](auto* storage) {
      using A = Accumulator<std::remove_pointer_t<decltype(storage)>>;
      std::copy_n(v.z<A>(), v.size(), v.average<A>());
    });
  }
  MarkUpToDate(&v);
  return "";
}

bool Adaptive::AreSmall(const TrainedSet& all) const {
  const AdaptiveOptions& options = batches_.options();
  if (!options.normalises || options.perturbation == 0) return false;
  int64_t size = 0;
  for (int m = 0; m < all.size(); ++m) {
    size += central_->variable(all.variable(m)).size();
  }
  for (int j = 0; j < batches_.num_learners(); ++j) {
    double squares = 0;
    for (int m = 0; m < all.size(); ++m) {
      squares += SquaredNorm(central_->variable(all.variable(m)), all.weights(j, m));
    }
    if (!(std::sqrt(squares) < options.threshold * size)) return false;
  }
  return true;
}

void Adaptive::MergeHere(const TrainedSet& all, const std::vector<double>& weights) {
  for (int m = 0; m < all.size(); ++m) {
    CentralModel::Variable& v = central_->variable(all.variable(m));
    MergeVariable(v, all.replicas(m), weights, traits_.momentum, v.previous<void>());
  }
}

bool Adaptive::MergeOverHosts(const TrainedSet& all,
                              const std::vector<double>& weights) {
  const std::vector<double> own = batches_.OwnWeights(weights);
  HostChunks::Layout& layout = chunks_->LayoutOf(all.variables());
  const auto for_slices = [&](auto work) {
    for (int m = 0; m < all.size(); ++m) {
      CentralModel::Variable& v = central_->variable(all.variable(m));
      WithStorageType(v.type(), [&](auto* storage) {
        using S = std::remove_pointer_t<decltype(storage)>;
        const Weighed<S> replicas(all.replicas(m), own);
        for (int s = 0; s < v.num_slices(); ++s) {
          work(storage, v, v.slice(s), layout.places[m][s], replicas);
        }
      });
    }
  };
  for_slices([](auto* storage, CentralModel::Variable& v, CentralModel::Slice part,
                const HostChunks::Place& to, const auto& replicas) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    Passes<S>::Change(replicas.w.data(), replicas.p.data(), replicas.count(),
                      part.begin, v.template z<A>() + part.begin, part.size(),
                      to.chunk->template values<A>() + to.begin);
    to.chunk->SetNote(to.note, v.has_momentum() ? 0 : 1);
  });
  for (const auto& chunk : layout.chunks) chunk->Start();
  bool arrived = true;
  for (const auto& chunk : layout.chunks) arrived &= chunk->Await();
  if (!arrived) return false;
  const double sum_of_p = SumOf(weights);
  for_slices([&](auto* storage, CentralModel::Variable& v, CentralModel::Slice part,
                 const HostChunks::Place& from, const auto&) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    const A* const sums = from.chunk->template values<A>();
    const A momentum = sums[from.note] > 0 ? A(0) : static_cast<A>(traits_.momentum);
    Passes<S>::Next(sums + from.begin, v.template z<A>() + part.begin,
                    static_cast<A>(sum_of_p), momentum, part.size(),
                    v.template previous<A>() + part.begin);
  });
  return true;
}

bool Adaptive::Merge(const TrainedSet& all, bool small) {
  const ScopedFlushDenormals flush;
  std::vector<double> weights = batches_.Weights(small);
  if (chunks_ == nullptr) {
    MergeHere(all, weights);
  } else if (!MergeOverHosts(all, weights)) {
    return false;
  }
  for (int m = 0; m < all.size(); ++m) {
    CentralModel::Variable& v = central_->variable(all.variable(m));
    MarkUpToDate(&v);
    v.Swap();
    MarkUpToDate(&v);
    for (int j = 0; j < batches_.num_learners(); ++j) {
      central_->CopyTo(all.variable(m), CentralModel::Which::kZ, all.weights(j, m));
    }
  }
  batches_.Next(std::move(weights));
  return true;
}

void Adaptive::Abandon(const TrainedSet& all) {
  for (int m = 0; m < all.size(); ++m) {
    for (int j = 0; j < batches_.num_learners(); ++j) {
      central_->CopyTo(all.variable(m), CentralModel::Which::kZ, all.weights(j, m));
    }
    central_->ForgetMomentum(all.variable(m));
  }
  batches_.Abandon();
}

}  // namespace tensorbow
