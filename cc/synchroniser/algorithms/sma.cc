#include "cc/synchroniser/algorithms/sma.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "cc/arithmetic/correction_passes.h"
#include "cc/support/aligned_buffer.h"
#include "cc/support/prefetch.h"
#include "cc/support/vectorise.h"
#include "cc/synchroniser/algorithms/host_average.h"
#include "cc/synchroniser/algorithms/lagging_hosts.h"
#include "cc/synchroniser/algorithms/sma_base.h"

namespace tensorbow {
namespace {

// The elements handled at a time: a running sum stays in the first-level cache.
constexpr int64_t kBlock = 1024;

// S is the storage type of replicas, A the accumulation type.

// z ← Σ_j w_j / count, j in order.
template <typename S, typename A = Accumulator<S>>
TENSORBOW_INLINE void Mean(const S* const* w, int count, int64_t n, A* __restrict z) {
  const A scale = A(1) / static_cast<A>(count);
  for (int64_t i = 0; i < n; ++i) {
    A sum = static_cast<A>(w[0][i]);
    for (int j = 1; j < count; ++j) sum += static_cast<A>(w[j][i]);
    z[i] = sum * scale;
  }
}

// z_prev ← z + Σ_j α (w_j − z) + μ (z − z_prev), j in order.
template <typename S, typename A = Accumulator<S>>
TENSORBOW_INLINE void Advance(const S* const* w, int count, const A* __restrict z,
                              A alpha, A momentum, int64_t n, A* __restrict z_prev) {
  alignas(AlignedBuffer::kCacheLineBytes) A sum[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t size = std::min(kBlock, n - begin);
    CorrectionSumLoop<S>(w, count, begin, z + begin, alpha, size, sum);
    for (int64_t i = 0; i < size; ++i) {
      const A step =
          momentum == A(0) ? A(0) : momentum * (z[begin + i] - z_prev[begin + i]);
      z_prev[begin + i] = z[begin + i] + sum[i] + step;
    }
  }
}

// target_clones works on plain functions only: one for each type.
template <typename S>
struct Passes;
#define TENSORBOW_PASSES(S)                                                            \
  template <>                                                                          \
  struct Passes<S> {                                                                   \
    using A = Accumulator<S>;                                                          \
    TENSORBOW_VECTORISED static void Mean(const S* const* w, int count, int64_t n,     \
                                          A* z) {                                      \
      switch (count) { /* the common cases, with the inner loop gone */                \
        case 1:                                                                        \
          return tensorbow::Mean<S>(w, 1, n, z);                                       \
        case 2:                                                                        \
          return tensorbow::Mean<S>(w, 2, n, z);                                       \
        case 4:                                                                        \
          return tensorbow::Mean<S>(w, 4, n, z);                                       \
        default:                                                                       \
          return tensorbow::Mean<S>(w, count, n, z);                                   \
      }                                                                                \
    }                                                                                  \
    TENSORBOW_VECTORISED static void Advance(const S* const* w, int count, const A* z, \
                                             A alpha, A momentum, int64_t n,           \
                                             A* z_prev) {                              \
      tensorbow::Advance<S>(w, count, z, alpha, momentum, n, z_prev);                  \
    }                                                                                  \
    TENSORBOW_VECTORISED static void TakeOut(const S* w, const A* z, A alpha,          \
                                             int64_t n, A* next) {                     \
      TakeOutLoop<S>(w, z, alpha, n, next);                                            \
    }                                                                                  \
  };
TENSORBOW_PASSES(float)
TENSORBOW_PASSES(double)
TENSORBOW_PASSES(Half)
TENSORBOW_PASSES(Bfloat16)
#undef TENSORBOW_PASSES

class CurrentCentre : public Sma {
 public:
  CurrentCentre(const SmaOptions& options, int num_learners, CentralModel* central,
                std::unique_ptr<HostAverage> hosts)
      : Sma(options, num_learners, central),
        hosts_(std::move(hosts)),
        host_period_(options.host_period),
        host_alpha_(options.host_alpha) {}

  double Alpha(int variable) const override {
    return hosts_ == nullptr || HostsExchange(variable) ? alpha_ : host_alpha_;
  }

  bool HasArrived(int variable) override {
    return hosts_ == nullptr || !HostsExchange(variable) || IsUpToDate(variable) ||
           hosts_->HasArrived(variable);
  }

  void PrepareSlice(const TrainedSet& set, int member, int slice, bool,
                    const std::vector<int>& participants) override {
    PrepareSliceOf(set.variable(member), slice, set.replicas(member), participants);
  }

  void Complete(const TrainedSet& set, bool,
                const std::vector<int>& participants) override {
    std::vector<int> exchanged;  // members
    idle_.resize(central().num_variables());
    for (int m = 0; m < set.size(); ++m) {
      variable(set, m).NextIteration();
      idle_[set.variable(m)] = participants.empty();
      if (hosts_ != nullptr && HostsExchange(set.variable(m))) exchanged.push_back(m);
    }
    if (!exchanged.empty()) hosts_->Send(set, exchanged, participants);
  }

 private:
  // Returns whether z is now the mean over all hosts' learners. The variable's
  // iterations are as many on all hosts.
  bool HostsExchange(int variable) const {
    return central().variable(variable).iterations() % host_period_ == 0;
  }

  // Returns whether the variable's last iteration had no participants here.
  bool IsIdle(int variable) const {
    return variable < static_cast<int>(idle_.size()) && idle_[variable];
  }

  void PrepareSliceOf(int variable, int slice, const std::vector<void*>& replicas,
                      const std::vector<int>& participants) {
    CentralModel::Variable& v = central().variable(variable);
    if (v.up_to_date(slice)) return;  // after a reset or a read
    if (hosts_ != nullptr && HostsExchange(variable)) {
      hosts_->Receive(variable, slice);
    } else if (!IsIdle(variable)) {  // else z stays
      const CentralModel::Slice part = v.slice(slice);
      WithStorageType(v.type(), [&](auto* storage) {
        using S = std::remove_pointer_t<decltype(storage)>;
        const auto w = SlicesOf<S>(replicas, participants, part.begin);
        auto* const z = v.template z<Accumulator<S>>() + part.begin;
        PrefetchForWriting(z, part.size() * int64_t{sizeof *z});  // others have read it
        Passes<S>::Mean(w.data(), static_cast<int>(w.size()), part.size(), z);
      });
    }
    v.MarkUpToDate(slice);
  }

  void BringUpToDate(int variable, const std::vector<void*>& replicas,
                     const std::vector<int>& participants) override {
    const int num_slices = central().variable(variable).num_slices();
    for (int s = 0; s < num_slices; ++s) {
      PrepareSliceOf(variable, s, replicas, participants);
    }
  }

  const std::unique_ptr<HostAverage> hosts_;  // null for one host
  std::vector<bool> idle_;                    // by variable of the model
  const int64_t host_period_;
  const double host_alpha_;
};

class LaggingCentre : public Sma {
 public:
  LaggingCentre(const SmaOptions& options, int num_learners, CentralModel* central)
      : Sma(options, num_learners, central), num_learners_(num_learners) {}

  // Includes every learner; Complete() excludes those that did not take part.
  void PrepareSlice(const TrainedSet& set, int member, int slice, bool due,
                    const std::vector<int>&) override {
    CentralModel::Variable& v = variable(set, member);
    if (!due) return;
    v.MarkUpToDate(slice);
    const CentralModel::Slice part = v.slice(slice);
    WithStorageType(v.type(), [&](auto* storage) {
      using S = std::remove_pointer_t<decltype(storage)>;
      using A = Accumulator<S>;
      const std::vector<const S*> w = AllFrom<S>(set, member, part.begin);
      Passes<S>::Advance(w.data(), num_learners_, v.template z<A>() + part.begin,
                         static_cast<A>(alpha_), static_cast<A>(traits_.momentum),
                         part.size(), v.template previous<A>() + part.begin);
    });
  }

  void Complete(const TrainedSet& set, bool due,
                const std::vector<int>& participants) override {
    if (!due) return;
    for (int member = 0; member < set.size(); ++member) {
      for (int j = 0; j < num_learners_; ++j) {
        if (!std::binary_search(participants.begin(), participants.end(), j)) {
          Exclude(set, member, j);
        }
      }
      variable(set, member).Swap();
    }
  }

 private:
  void Exclude(const TrainedSet& set, int member, int learner) {
    const CentralModel::Variable& v = variable(set, member);
    WithStorageType(v.type(), [&](auto* storage) {
      using S = std::remove_pointer_t<decltype(storage)>;
      using A = Accumulator<S>;
      Passes<S>::TakeOut(Weights<S>(set, learner, member), v.template z<A>(),
                         static_cast<A>(alpha_), v.size(), v.template previous<A>());
    });
  }

  void BringUpToDate(int variable, const std::vector<void*>&,
                     const std::vector<int>&) override {
    CentralModel::Variable& v = central().variable(variable);
    for (int s = 0; s < v.num_slices(); ++s) v.MarkUpToDate(s);
  }

  const int num_learners_;
};

}  // namespace

std::unique_ptr<Algorithm> NewSma(const SmaOptions& options, int num_learners,
                                  CentralModel* central, Hosts* hosts) {
  const bool lags = options.centre == SmaOptions::Centre::kLagging;
  if (lags && hosts != nullptr) {
    return NewLaggingOverHosts(options, num_learners, central, hosts);
  }
  if (lags) return std::make_unique<LaggingCentre>(options, num_learners, central);
  std::unique_ptr<HostAverage> average;
  if (hosts != nullptr) average = std::make_unique<HostAverage>(hosts, central);
  return std::make_unique<CurrentCentre>(options, num_learners, central,
                                         std::move(average));
}

}  // namespace tensorbow
