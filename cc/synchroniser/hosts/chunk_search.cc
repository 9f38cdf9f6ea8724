#include "cc/synchroniser/hosts/chunk_search.h"

namespace tensorbow {

void ChunkSearch::Took(double lapse) {
  if (lapse < best_time_) {
    best_time_ = lapse;
    best_ = chunk_;
  }
  chunk_ += chunk_ < settings_.step ? 1 : settings_.step;
  // The paper checks the bound one interval later, without using that interval's time.
  if (chunk_ > most_ || chunk_ >= best_ + settings_.step * settings_.range) {
    chunk_ = best_;
    done_ = true;
  }
}

}  // namespace tensorbow
