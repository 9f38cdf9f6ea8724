#include "cc/synchroniser/hosts/host_chunks.h"

namespace tensorbow {

void HostChunks::Chunk::SetNote(int64_t at, double note) {
  if (wide_) {
    values<double>()[at] = note;
  } else {
    values<float>()[at] = static_cast<float>(note);
  }
}

void HostChunks::Chunk::Start() {
  filled_ = 0;
  sum_->Start();
  const MutexLock lock(&mu_);
  under_way_ = true;
}

void HostChunks::Chunk::Fill(int64_t elements) {
  filled_ += elements;
  if (filled_ == size_) Start();
}

bool HostChunks::Chunk::Await() {
  const MutexLock lock(&mu_);
  if (under_way_) failed_ = !sum_->Await().empty();
  under_way_ = false;
  return !failed_;
}

HostChunks::Layout& HostChunks::LayoutOf(const std::vector<int>& variables) {
  Layout& layout = layouts_[variables];
  if (layout.places.size() == variables.size()) return layout;

  std::map<bool, Chunk*> open;  // by whether it is wide
  for (int variable : variables) {
    const CentralModel::Variable& v = central_->variable(variable);
    const bool wide = v.type() == ElementType::kFloat64;
    std::vector<Place>& places = layout.places.emplace_back();
    for (int s = 0; s < v.num_slices(); ++s) {
      Chunk*& chunk = open[wide];
      if (chunk == nullptr || chunk->size_ + v.slice(s).size() > kChunkElements) {
        chunk = layout.chunks.emplace_back(std::make_unique<Chunk>(wide)).get();
      }
      const bool more = s > 0 && places.back().chunk == chunk;
      places.push_back(
          {chunk, chunk->size_, more ? places.back().note : chunk->num_notes_++});
      chunk->size_ += v.slice(s).size();
    }
  }
  for (std::vector<Place>& places : layout.places) {
    for (Place& place : places) place.note += place.chunk->size_;
  }
  for (const auto& chunk : layout.chunks) {
    const auto type = chunk->wide_ ? Hosts::Type::kDouble : Hosts::Type::kFloat;
    chunk->sum_ = hosts_->NewSum(type, chunk->size_ + chunk->num_notes_);
  }
  return layout;
}

void HostChunks::Sent(int variable, const std::vector<Place>& places) {
  sent_.resize(central_->num_variables());
  sent_[variable] = places;
}

bool HostChunks::HasArrived(int variable) {
  bool arrived = true;
  if (variable >= static_cast<int>(sent_.size())) return arrived;
  for (const Place& place : sent_[variable]) arrived &= place.chunk->Await();
  return arrived;
}

}  // namespace tensorbow
