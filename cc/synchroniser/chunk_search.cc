#include "cc/synchroniser/chunk_search.h"

namespace tensorbow {

void ChunkSearch::Took(double lapse) {
  if (lapse < best_time_) {
    best_time_ = lapse;
    best_ = chunk_;
  }
  chunk_ += chunk_ < settings_.step ? 1 : settings_.step;
  // The paper looks at the bound when the interval is over, and so measures one size
  // beyond it in vain.
  if (chunk_ > most_ || chunk_ >= best_ + settings_.step * settings_.range) {
    chunk_ = best_;
    done_ = true;
  }
}

}  // namespace tensorbow
