#include "cc/synchroniser/host_average.h"

#include <algorithm>
#include <type_traits>
namespace tensorbow {
namespace {

// sum ← Σ_j w_j, j in order; zeros for none.
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

const HostAverage::Layout& HostAverage::LayoutOf(const TrainedSet& set,
                                                 const std::vector<int>& members) {
  std::vector<int> variables;
  for (int m : members) variables.push_back(set.variable(m));
  Layout& layout = layouts_[variables];
  if (layout.places.size() == variables.size()) return layout;

  std::map<bool, Chunk*> open;  // by whether it is wide
  for (int variable : variables) {
    const CentralModel::Variable& v = central_->variable(variable);
    const bool wide = v.type() == ElementType::kFloat64;
    std::vector<Place>& places = layout.places.emplace_back();
    for (int s = 0; s < v.num_slices(); ++s) {
      Chunk*& chunk = open[wide];
      if (chunk == nullptr || chunk->size + v.slice(s).size() > kChunkElements) {
        chunk = layout.chunks.emplace_back(std::make_unique<Chunk>()).get();
        chunk->wide = wide;
      }
      places.push_back({chunk, chunk->size});
      chunk->size += v.slice(s).size();
    }
  }
  for (const auto& chunk : layout.chunks) {
    chunk->sum = hosts_->NewSum(
        chunk->wide ? Hosts::Type::kDouble : Hosts::Type::kFloat, chunk->size + 1);
  }
  return layout;
}

void HostAverage::SendSlice(const TrainedSet& set, int member, int slice,
                            const std::vector<int>& present, const Place& place) {
  const CentralModel::Variable& v = central_->variable(set.variable(member));
  const CentralModel::Slice part = v.slice(slice);
  WithStorageType(v.type(), [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    std::vector<const S*> replicas;
    for (int j : present) {
      replicas.push_back(static_cast<const S*>(set.weights(j, member)) + part.begin);
    }
    Chunk* const chunk = place.chunk;
    A* const sum = chunk->sum->as<A>();
    SumOf<S>(replicas, part.size(), sum + place.begin);
    chunk->filled += part.size();
    if (chunk->filled < chunk->size) return;
    sum[chunk->size] = static_cast<A>(present.size());
    chunk->sum->Start();
    const MutexLock lock(&chunk->mu);
    chunk->under_way = true;
  });
}

void HostAverage::Send(const TrainedSet& set, const std::vector<int>& members,
                       const std::vector<int>& present) {
  const Layout& layout = LayoutOf(set, members);
  for (const auto& chunk : layout.chunks) {
    Await(chunk.get());  // where the last iteration has been discarded
    chunk->filled = 0;
  }
  places_.resize(central_->num_variables());
  for (size_t k = 0; k < members.size(); ++k) {
    const std::vector<Place>& places = layout.places[k];
    places_[set.variable(members[k])] = places;
    for (size_t s = 0; s < places.size(); ++s) {
      SendSlice(set, members[k], static_cast<int>(s), present, places[s]);
    }
  }
}

bool HostAverage::Await(Chunk* chunk) {
  const MutexLock lock(&chunk->mu);
  if (chunk->under_way) chunk->failed = !chunk->sum->Await().empty();
  chunk->under_way = false;
  return !chunk->failed;
}

void HostAverage::Receive(int variable, int slice) {
  const Place& place = places_[variable][slice];
  if (!Await(place.chunk)) return;
  CentralModel::Variable& v = central_->variable(variable);
  const CentralModel::Slice part = v.slice(slice);
  WithStorageType(v.type(), [&](auto* storage) {
    using A = Accumulator<std::remove_pointer_t<decltype(storage)>>;
    const A* const values = place.chunk->sum->as<A>();
    const A* __restrict sum = values + place.begin;
    const A scale = A(1) / values[place.chunk->size];
    A* __restrict z = v.template z<A>() + part.begin;
    for (int64_t i = 0; i < part.size(); ++i) z[i] = sum[i] * scale;
  });
}

}  // namespace tensorbow
