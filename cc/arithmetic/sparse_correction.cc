#include "cc/arithmetic/sparse_correction.h"

#include <algorithm>
#include <utility>

#include "cc/arithmetic/correction_passes.h"

namespace tensorbow {

template <typename S>
SparseCorrection<S>::SparseCorrection(std::vector<int64_t> rows, int64_t num_rows,
                                      int64_t row_size, Pull<S> pull, S* w)
    : rows_(std::move(rows)), row_size_(row_size), pull_(pull), w_(w) {
  std::sort(rows_.begin(), rows_.end());
  rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
  rows_.erase(std::lower_bound(rows_.begin(), rows_.end(), num_rows), rows_.end());
  rows_.erase(rows_.begin(), std::lower_bound(rows_.begin(), rows_.end(), 0));
  remembered_.resize(rows_.size() * row_size_);
}

template <typename S>
void SparseCorrection<S>::BeforeUpdate(int64_t begin, int64_t end) {
  auto row = std::lower_bound(rows_.begin(), rows_.end(), begin / row_size_);
  while (begin < end) {
    const int64_t row_begin = row == rows_.end() ? end : *row * row_size_;
    const int64_t alone = std::clamp(row_begin, begin, end);  // [begin, alone) is
    Correct(pull_.z + begin, pull_.alpha, alone - begin, w_ + begin);
    begin = alone;
    if (begin == end) break;
    const int64_t part_end = std::min(row_begin + row_size_, end);
    A* const c = remembered_.data() + (row - rows_.begin()) * row_size_;
    Correction(w_ + begin, pull_.z + begin, pull_.alpha, part_end - begin,
               c + (begin - row_begin));
    begin = part_end;
    ++row;
  }
}

template <typename S>
void SparseCorrection<S>::AfterUpdate() {
  const A* c = remembered_.data();
  for (int64_t row : rows_) {
    Subtract(c, row_size_, w_ + row * row_size_);
    c += row_size_;
  }
}

template class SparseCorrection<float>;
template class SparseCorrection<double>;
template class SparseCorrection<Half>;
template class SparseCorrection<Bfloat16>;

}  // namespace tensorbow
