#include "cc/synchroniser/adaptive.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "cc/support/aligned_buffer.h"
#include "cc/support/flush_denormals.h"
#include "cc/support/vectorise.h"

namespace tensorbow {
namespace {

// Elements handled at a time: a running sum stays in the first-level cache.
constexpr int64_t kBlock = 1024;

// S is how replicas are stored, A how they are computed with.

// next ← Σ_j p_j w_j + μ (z − next), computed as (Σ_j p_j) z + Σ_j p_j (w_j − z) + …:
// where replicas are equal to z, so is their mean, bit for bit.
template <typename S, typename A = Accumulator<S>>
TENSORBOW_INLINE void Merged(const S* const* w, const A* p, int count,
                             const A* __restrict z, A sum_of_p, A momentum, int64_t n,
                             A* __restrict next) {
  alignas(AlignedBuffer::kCacheLineBytes) A sum[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t size = std::min(kBlock, n - begin);
    for (int64_t i = 0; i < size; ++i) sum[i] = sum_of_p * z[begin + i];
    for (int j = 0; j < count; ++j) {
      const S* __restrict wj = w[j] + begin;
      for (int64_t i = 0; i < size; ++i) {
        sum[i] += p[j] * (static_cast<A>(wj[i]) - z[begin + i]);
      }
    }
    for (int64_t i = 0; i < size; ++i) {
      const A step =
          momentum == A(0) ? A(0) : momentum * (z[begin + i] - next[begin + i]);
      next[begin + i] = sum[i] + step;
    }
  }
}

// target_clones goes with plain functions only.
#define TENSORBOW_MERGED(S)                                                           \
  TENSORBOW_VECTORISED void MergeInto(                                                \
      const S* const* w, const Accumulator<S>* p, int count, const Accumulator<S>* z, \
      Accumulator<S> sum_of_p, Accumulator<S> momentum, int64_t n,                    \
      Accumulator<S>* next) {                                                         \
    Merged<S>(w, p, count, z, sum_of_p, momentum, n, next);                           \
  }
TENSORBOW_MERGED(float)
TENSORBOW_MERGED(double)
TENSORBOW_MERGED(Half)
TENSORBOW_MERGED(Bfloat16)
#undef TENSORBOW_MERGED

// out ← Σ_j p_j w_j + μ (z − out) of a variable.
void MergeVariable(const CentralModel::Variable& v, const std::vector<void*>& replicas,
                   const std::vector<double>& weights, double momentum, void* out) {
  WithStorageType(v.type(), [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    std::vector<const S*> w;
    std::vector<A> p;
    double sum_of_p = 0;
    for (size_t j = 0; j < replicas.size(); ++j) {
      if (weights[j] == 0) continue;
      w.push_back(static_cast<const S*>(replicas[j]));
      p.push_back(static_cast<A>(weights[j]));
      sum_of_p += weights[j];
    }
    if (std::abs(sum_of_p - 1) < 1e-12) sum_of_p = 1;  // but for rounding
    MergeInto(w.data(), p.data(), static_cast<int>(w.size()), v.z<A>(),
              static_cast<A>(sum_of_p), static_cast<A>(momentum), v.size(),
              static_cast<A*>(out));
  });
}

// ‖w‖² of a learner's replica of a variable.
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
                   CentralModel* central)
    : central_(central), batches_(options, num_learners) {
  traits_.averages = Traits::Averages::kMergedModels;
  traits_.momentum = options.momentum;
}

std::string Adaptive::Collect(int variable, const std::vector<void*>& replicas,
                              const std::vector<int>&) {
  CentralModel::Variable& v = central_->variable(variable);
  const std::vector<double> weights = batches_.num_updates() > 0
                                          ? batches_.Weights(/*perturbs=*/false)
                                          : std::vector<double>(replicas.size(), 0);
  WithStorageType(v.type(), [&](auto* storage) {
    using A = Accumulator<std::remove_pointer_t<decltype(storage)>>;
    if (batches_.num_updates() == 0) {
      std::copy_n(v.z<A>(), v.size(), v.average<A>());
    } else {
      MergeVariable(v, replicas, weights, /*momentum=*/0, v.average<A>());
    }
  });
  MarkUpToDate(&v);
  return "";
}

bool Adaptive::AreSmall(const TrainedSet& all) const {
  int64_t size = 0;
  for (int m = 0; m < all.size(); ++m) {
    size += central_->variable(all.variable(m)).size();
  }
  for (int j = 0; j < batches_.num_learners(); ++j) {
    double squares = 0;
    for (int m = 0; m < all.size(); ++m) {
      squares += SquaredNorm(central_->variable(all.variable(m)), all.weights(j, m));
    }
    if (!(std::sqrt(squares) < batches_.options().threshold * size)) return false;
  }
  return true;
}

void Adaptive::Merge(const TrainedSet& all) {
  const ScopedFlushDenormals flush;
  const AdaptiveOptions& options = batches_.options();
  const bool perturbs = options.normalises && options.perturbation > 0 &&
                        batches_.every_learner_has_updated() && AreSmall(all);
  std::vector<double> weights = batches_.Weights(perturbs);
  for (int m = 0; m < all.size(); ++m) {
    CentralModel::Variable& v = central_->variable(all.variable(m));
    MergeVariable(v, all.replicas(m), weights, options.momentum, v.previous<void>());
    MarkUpToDate(&v);
    v.Swap();
    MarkUpToDate(&v);
    for (int j = 0; j < batches_.num_learners(); ++j) {
      central_->CopyTo(all.variable(m), CentralModel::Which::kZ, all.weights(j, m));
    }
  }
  batches_.Next(std::move(weights));
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
