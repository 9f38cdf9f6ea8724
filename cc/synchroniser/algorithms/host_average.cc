#include "cc/synchroniser/algorithms/host_average.h"

#include <algorithm>
#include <type_traits>

namespace tensorbow {
namespace {

// Sets `sum` to Σ_j w_j, j in order; to zeros for none.
template <typename S, typename A = Accumulator<S>>
void SumOf(const std::vector<const S*>& w, int64_t n, A* __restrict sum) {
  if (w.empty()) {
    std::fill_n(sum, n, A(0));
    return;
  }
  for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<A>(w[0][i]);
  for (size_t j = 1; j < w.size(); ++j) {
    const S* __restrict other = w[j];
    for (int64_t i = 0; i < n; ++i) sum[i] += static_cast<A>(other[i]);
  }
}

}  // namespace

void HostAverage::Fill(const TrainedSet& set, int member, int slice,
                       const std::vector<int>& participants,
                       const HostChunks::Place& place) {
  const CentralModel::Variable& v = central_->variable(set.variable(member));
  const CentralModel::Slice part = v.slice(slice);
  WithStorageType(v.type(), [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    std::vector<const S*> replicas;
    for (int j : participants) {
      replicas.push_back(static_cast<const S*>(set.weights(j, member)) + part.begin);
    }
    SumOf<S>(replicas, part.size(), place.chunk->values<A>() + place.begin);
  });
  place.chunk->SetNote(place.note, static_cast<double>(participants.size()));
  place.chunk->Fill(part.size());
}

void HostAverage::Send(const TrainedSet& set, const std::vector<int>& members,
                       const std::vector<int>& participants) {
  std::vector<int> variables;
  for (int member : members) variables.push_back(set.variable(member));
  const HostChunks::Layout& layout = chunks_.LayoutOf(variables);
  for (const auto& chunk : layout.chunks) {
    chunk->Await();  // the last iteration may have been discarded
  }
  for (size_t k = 0; k < members.size(); ++k) {
    const std::vector<HostChunks::Place>& places = layout.places[k];
    chunks_.Sent(variables[k], places);
    for (size_t s = 0; s < places.size(); ++s) {
      Fill(set, members[k], static_cast<int>(s), participants, places[s]);
    }
  }
}

void HostAverage::Receive(int variable, int slice) {
  const HostChunks::Place& place = chunks_.LastSent(variable, slice);
  if (!place.chunk->Await()) return;
  CentralModel::Variable& v = central_->variable(variable);
  const CentralModel::Slice part = v.slice(slice);
  WithStorageType(v.type(), [&](auto* storage) {
    using A = Accumulator<std::remove_pointer_t<decltype(storage)>>;
    const A* const values = place.chunk->values<A>();
    const A* __restrict sum = values + place.begin;
    const A scale = A(1) / values[place.note];
    A* __restrict z = v.template z<A>() + part.begin;
    for (int64_t i = 0; i < part.size(); ++i) z[i] = sum[i] * scale;
  });
}

}  // namespace tensorbow
