#include "cc/arithmetic/mean_of_rows.h"

#include <algorithm>
#include <tuple>

#include "cc/support/vectorise.h"

namespace tensorbow {
namespace {

template <typename S, typename A = Accumulator<S>>
TENSORBOW_INLINE void AddLoop(A share, const S* __restrict values, int64_t n,
                              A* __restrict sum) {
  for (int64_t i = 0; i < n; ++i) sum[i] += share * static_cast<A>(values[i]);
}

}  // namespace

// A function for each type, since target_clones does not work on templates.
#define TENSORBOW_ADD(S)                                                      \
  TENSORBOW_VECTORISED static void Add(Accumulator<S> share, const S* values, \
                                       int64_t n, Accumulator<S>* sum) {      \
    AddLoop<S>(share, values, n, sum);                                        \
  }
TENSORBOW_ADD(float)
TENSORBOW_ADD(double)
TENSORBOW_ADD(Half)
TENSORBOW_ADD(Bfloat16)

template <typename S>
std::vector<int64_t> UnionOfRows(const std::vector<LearnerRows<S>>& all) {
  std::vector<int64_t> rows;
  for (const LearnerRows<S>& own : all) {
    rows.insert(rows.end(), own.rows->begin(), own.rows->end());
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

template <typename S>
void MeanOfRows(const std::vector<LearnerRows<S>>& all,
                const std::vector<int64_t>& rows, int64_t row_size, S* mean) {
  using A = Accumulator<S>;
  std::vector<std::tuple<int64_t, size_t, size_t>> places;  // {row, learner, index}
  for (size_t j = 0; j < all.size(); ++j) {
    const std::vector<int64_t>& own = *all[j].rows;
    for (size_t i = 0; i < own.size(); ++i) places.emplace_back(own[i], j, i);
  }
  std::sort(places.begin(), places.end());
  const A scale = A(1) / static_cast<A>(all.size());
  std::vector<A> sum(row_size);
  auto place = places.begin();
  for (const int64_t row : rows) {
    std::fill(sum.begin(), sum.end(), A(0));
    for (; place != places.end() && std::get<0>(*place) == row; ++place) {
      const LearnerRows<S>& own = all[std::get<1>(*place)];
      Add(static_cast<A>(own.share), own.values + std::get<2>(*place) * row_size,
          row_size, sum.data());
    }
    for (const A element : sum) *mean++ = static_cast<S>(element * scale);
  }
}

#define TENSORBOW_MEAN_OF_ROWS(S)                                                \
  template std::vector<int64_t> UnionOfRows(const std::vector<LearnerRows<S>>&); \
  template void MeanOfRows(const std::vector<LearnerRows<S>>&,                   \
                           const std::vector<int64_t>&, int64_t, S*);
TENSORBOW_MEAN_OF_ROWS(float)
TENSORBOW_MEAN_OF_ROWS(double)
TENSORBOW_MEAN_OF_ROWS(Half)
TENSORBOW_MEAN_OF_ROWS(Bfloat16)

}  // namespace tensorbow
