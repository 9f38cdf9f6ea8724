#include "cc/synchroniser/algorithms/lagging_hosts.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "cc/arithmetic/correction_passes.h"
#include "cc/support/vectorise.h"
#include "cc/synchroniser/algorithms/sma_base.h"
#include "cc/synchroniser/hosts/host_chunks.h"

namespace tensorbow {
namespace {

// z_next = z + Σ_j c_j + μ (z − z_prev) ;   z_prev ← z ;   z ← z_next
template <typename A>
TENSORBOW_INLINE void Advance(const A* __restrict sum, A momentum, int64_t n,
                              A* __restrict z, A* __restrict z_prev) {
  for (int64_t i = 0; i < n; ++i) {
    const A step = momentum == A(0) ? A(0) : momentum * (z[i] - z_prev[i]);
    const A next = z[i] + sum[i] + step;
    z_prev[i] = z[i];
    z[i] = next;
  }
}

// target_clones works on plain functions only: one for each type.
template <typename S>
struct Passes;
#define TENSORBOW_PASSES(S)                                                        \
  template <>                                                                      \
  struct Passes<S> {                                                               \
    using A = Accumulator<S>;                                                      \
    TENSORBOW_VECTORISED static void CorrectionSum(const S* const* w, int count,   \
                                                   const A* z, A alpha, int64_t n, \
                                                   A* sum) {                       \
      CorrectionSumLoop<S>(w, count, /*begin=*/0, z, alpha, n, sum);               \
    }                                                                              \
    TENSORBOW_VECTORISED static void TakeOut(const S* w, const A* z, A alpha,      \
                                             int64_t n, A* sum) {                  \
      TakeOutLoop<S>(w, z, alpha, n, sum);                                         \
    }                                                                              \
    TENSORBOW_VECTORISED static void Advance(const A* sum, A momentum, int64_t n,  \
                                             A* z, A* z_prev) {                    \
      tensorbow::Advance<A>(sum, momentum, n, z, z_prev);                          \
    }                                                                              \
  };
TENSORBOW_PASSES(float)
TENSORBOW_PASSES(double)
TENSORBOW_PASSES(Half)
TENSORBOW_PASSES(Bfloat16)
#undef TENSORBOW_PASSES

class LaggingOverHosts : public Sma {
 public:
  LaggingOverHosts(const SmaOptions& options, int num_learners, CentralModel* central,
                   Hosts* hosts)
      : Sma(options, num_learners, central),
        num_learners_(num_learners),
        chunks_(hosts, central) {}

  void Begin(const TrainedSet& set) override {
    layout_ = &chunks_.LayoutOf(set.variables());
  }

  // Includes every learner; Complete() excludes those that did not take part.
  void PrepareSlice(const TrainedSet& set, int member, int slice, bool due,
                    const std::vector<int>&) override {
    if (!due) return;
    Receive(set.variable(member), slice);
    const CentralModel::Variable& v = variable(set, member);
    const CentralModel::Slice part = v.slice(slice);
    const HostChunks::Place& place = layout_->places[member][slice];
    place.chunk->Await();  // the last iteration may have been discarded
    WithStorageType(v.type(), [&](auto* storage) {
      using S = std::remove_pointer_t<decltype(storage)>;
      using A = Accumulator<S>;
      const std::vector<const S*> w = AllFrom<S>(set, member, part.begin);
      Passes<S>::CorrectionSum(w.data(), num_learners_, v.template z<A>() + part.begin,
                               static_cast<A>(alpha_), part.size(),
                               place.chunk->values<A>() + place.begin);
    });
  }

  bool HasArrived(int variable) override {
    return IsUpToDate(variable) || chunks_.HasArrived(variable);
  }

  void Complete(const TrainedSet& set, bool due,
                const std::vector<int>& participants) override {
    if (!due) return;
    for (const auto& chunk : layout_->chunks) chunk->Await();  // see PrepareSlice()
    for (int member = 0; member < set.size(); ++member) {
      Exclude(set, member, participants);
      CentralModel::Variable& v = variable(set, member);
      const std::vector<HostChunks::Place>& places = layout_->places[member];
      for (const HostChunks::Place& place : places) {
        place.chunk->SetNote(place.note, v.has_momentum() ? 0 : 1);
      }
      v.NextIteration();
      chunks_.Sent(set.variable(member), places);
    }
    for (const auto& chunk : layout_->chunks) chunk->Start();
  }

 private:
  // Removes the corrections of learners that did not take part.
  void Exclude(const TrainedSet& set, int member,
               const std::vector<int>& participants) {
    const CentralModel::Variable& v = variable(set, member);
    WithStorageType(v.type(), [&](auto* storage) {
      using S = std::remove_pointer_t<decltype(storage)>;
      using A = Accumulator<S>;
      for (int s = 0; s < v.num_slices(); ++s) {
        const CentralModel::Slice part = v.slice(s);
        const HostChunks::Place& place = layout_->places[member][s];
        A* const sum = place.chunk->values<A>() + place.begin;
        if (participants.empty()) {
          std::fill_n(sum, part.size(), A(0));
          continue;
        }
        for (int j = 0; j < num_learners_; ++j) {
          if (std::binary_search(participants.begin(), participants.end(), j)) continue;
          Passes<S>::TakeOut(Weights<S>(set, j, member) + part.begin,
                             v.template z<A>() + part.begin, static_cast<A>(alpha_),
                             part.size(), sum);
        }
      }
    });
  }

  // Brings z of a slice up to date with all completed iterations.
  void Receive(int variable, int slice) {
    CentralModel::Variable& v = central().variable(variable);
    if (v.up_to_date(slice)) return;
    const HostChunks::Place& place = chunks_.LastSent(variable, slice);
    if (!place.chunk->Await()) return;  // the hosts have failed
    const CentralModel::Slice part = v.slice(slice);
    WithStorageType(v.type(), [&](auto* storage) {
      using S = std::remove_pointer_t<decltype(storage)>;
      using A = Accumulator<S>;
      const A* const sums = place.chunk->values<A>();
      const bool restarted = sums[place.note] > 0;
      Passes<S>::Advance(sums + place.begin,
                         restarted ? A(0) : static_cast<A>(traits_.momentum),
                         part.size(), v.template z<A>() + part.begin,
                         v.template previous<A>() + part.begin);
    });
    v.MarkUpToDate(slice);
  }

  void BringUpToDate(int variable, const std::vector<void*>&,
                     const std::vector<int>&) override {
    const int num_slices = central().variable(variable).num_slices();
    for (int s = 0; s < num_slices; ++s) Receive(variable, s);
  }

  const int num_learners_;
  HostChunks chunks_;                     // notes count hosts that have restarted
  HostChunks::Layout* layout_ = nullptr;  // of the run's set
};

}  // namespace

std::unique_ptr<Algorithm> NewLaggingOverHosts(const SmaOptions& options,
                                               int num_learners, CentralModel* central,
                                               Hosts* hosts) {
  return std::make_unique<LaggingOverHosts>(options, num_learners, central, hosts);
}

}  // namespace tensorbow
