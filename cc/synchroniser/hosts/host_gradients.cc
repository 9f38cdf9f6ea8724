#include "cc/synchroniser/hosts/host_gradients.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "cc/activity/learner_activity.h"

namespace tensorbow {
namespace {

bool IsWide(ElementType type) { return type == ElementType::kFloat64; }

// sum ← Σ_j share_j · values_j
template <typename S, typename A = Accumulator<S>>
void WeightedSum(const std::vector<HostGradients::Values>& learners, int64_t begin,
                 int64_t n, A* __restrict sum) {
  bool first = true;
  for (const HostGradients::Values& learner : learners) {
    const S* __restrict values = static_cast<const S*>(learner.elements) + begin;
    const A share = static_cast<A>(learner.share);
    if (first) {
      for (int64_t i = 0; i < n; ++i) sum[i] = share * static_cast<A>(values[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) sum[i] += share * static_cast<A>(values[i]);
    }
    first = false;
  }
}

}  // namespace

HostGradients::HostGradients(Hosts* hosts, std::vector<Gradient> gradients,
                             Chunking chunking)
    : hosts_(hosts), gradients_(std::move(gradients)), chunk_(chunking.gradients) {
  if (!chunking.searched || gradients_.empty()) return;
  search_ = std::make_unique<ChunkSearch>(ChunkSearch::Settings(), size());
  chunk_ = search_->chunk();
}

void HostGradients::Place(int k, std::vector<Chunk*>* open) {
  const bool wide = IsWide(gradients_[k].type);
  Chunk*& chunk = (*open)[wide];
  const bool alone = chunk_ > 0 && k >= size() - kAlone;
  if (chunk != nullptr && (alone || (chunk_ > 0 && chunk->gradients >= chunk_))) {
    chunk = nullptr;
  }
  int64_t begin = 0;
  do {
    if (chunk == nullptr || chunk->size == kChunkElements) {
      chunk = chunks_.emplace_back(std::make_unique<Chunk>()).get();
      chunk->wide = wide;
    }
    if (begin == 0) ++chunk->gradients;
    const int64_t part =
        std::min(gradients_[k].size - begin, kChunkElements - chunk->size);
    pieces_[k].push_back({chunk, chunk->size, begin, part});
    chunk->size += part;
    begin += part;
  } while (begin < gradients_[k].size);
  if (alone) chunk = nullptr;
}

void HostGradients::Open() {
  if (opened_.load(std::memory_order_acquire)) return;
  const MutexLock lock(&mu_);
  if (opened_.load(std::memory_order_relaxed)) return;
  chunks_.clear();
  pieces_.assign(gradients_.size(), {});
  std::vector<Chunk*> open(2, nullptr);  // by whether they are wide
  for (int k = 0; k < size(); ++k) Place(k, &open);
  for (const auto& chunk : chunks_) {
    chunk->sum = hosts_->NewSum(
        chunk->wide ? Hosts::Type::kDouble : Hosts::Type::kFloat, chunk->size + 1);
  }
  if (search_ != nullptr && lapse_ == nullptr) {
    lapse_ = hosts_->NewSum(Hosts::Type::kDouble, 1);
  }
  opened_.store(true, std::memory_order_release);
}

bool HostGradients::Search() {
  if (iterations_++ % search_->interval() != 0) return true;
  const int64_t now = NowNanos();
  const int64_t began = std::exchange(interval_began_, now);
  if (iterations_ == 1) return true;  // the first interval starts
  // All hosts end the search together: they decide by the same numbers.
  *lapse_->as<double>() = static_cast<double>(now - began);
  lapse_->Start();
  if (!lapse_->Await().empty()) return false;
  search_->Took(*lapse_->as<double>());
  if (search_->chunk() == chunk_) return true;
  chunk_ = search_->chunk();
  opened_.store(false, std::memory_order_release);  // from the next iteration on
  return true;
}

void HostGradients::Add(int k, const std::vector<Values>& learners, int part,
                        int num_parts) {
  Open();
  const int64_t begin = gradients_[k].size * part / num_parts;
  const int64_t end = gradients_[k].size * (part + 1) / num_parts;
  WithStorageType(gradients_[k].type, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    for (const Piece& piece : pieces_[k]) {
      const int64_t first = std::max(begin, piece.begin);
      const int64_t last = std::min(end, piece.begin + piece.size);
      if (first >= last) continue;
      A* const sum = piece.chunk->sum->template as<A>();
      WeightedSum<S>(learners, first, last - first,
                     sum + piece.at + first - piece.begin);
    }
  });
}

void HostGradients::Send(int k, double count) {
  sent_ = k + 1;
  for (const Piece& piece : pieces_[k]) {
    Chunk& chunk = *piece.chunk;
    chunk.filled += piece.size;
    if (chunk.filled < chunk.size) continue;
    if (chunk.wide) {
      chunk.sum->as<double>()[chunk.size] = count;
    } else {
      chunk.sum->as<float>()[chunk.size] = static_cast<float>(count);
    }
    if (!alone_) chunk.sum->Start();
  }
}

void HostGradients::SendRest() {
  Open();
  for (int k = sent_; k < size(); ++k) {
    for (const Piece& piece : pieces_[k]) {
      Chunk& chunk = *piece.chunk;
      if (chunk.wide) {
        std::fill_n(chunk.sum->as<double>() + piece.at, piece.size, 0.0);
      } else {
        std::fill_n(chunk.sum->as<float>() + piece.at, piece.size, 0.0f);
      }
    }
    Send(k, 0);
  }
}

bool HostGradients::Await() {
  sent_ = 0;
  if (chunks_.empty()) return true;
  bool made = true;
  for (const auto& chunk : chunks_) {
    chunk->filled = 0;
    if (!alone_) made &= chunk->sum->Await().empty();
  }
  if (alone_) return true;
  if (made && search_ != nullptr && !search_->done()) made = Search();
  return made;
}

void HostGradients::Mean(int k, void* mean) const {
  WithStorageType(gradients_[k].type, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    using A = Accumulator<S>;
    for (const Piece& piece : pieces_[k]) {
      const A* const values = piece.chunk->sum->template as<A>();
      const A* __restrict sum = values + piece.at;
      const A scale = A(1) / values[piece.chunk->size];
      S* __restrict out = static_cast<S*>(mean) + piece.begin;
      for (int64_t i = 0; i < piece.size; ++i) out[i] = static_cast<S>(sum[i] * scale);
    }
  });
}

}  // namespace tensorbow
