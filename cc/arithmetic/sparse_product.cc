#include "cc/arithmetic/sparse_product.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "cc/support/vectorise.h"

namespace tensorbow {
namespace {

// The bits of a column's number that one pass sorts by.
constexpr int kDigitBits = 11;
constexpr int64_t kDigits = int64_t{1} << kDigitBits;
// The number of entries by which rows are prefetched.
constexpr int64_t kAhead = 8;

}  // namespace

// Not a template, since target_clones does not work on templates.
TENSORBOW_VECTORISED static void SumRows(const SparseProduct::Factors& factors,
                                         const int64_t* order, const int64_t* ends,
                                         int64_t rows, float* __restrict out) {
  const int64_t n = factors.columns;
  int64_t at = 0;
  for (int64_t row = 0; row < rows; ++row, out += n) {
    bool first = true;
    for (; at < ends[row]; ++at) {
      const float a = factors.values[order[at]];
      const float* const b = factors.b + factors.indices[2 * order[at]] * n;
      if (first) {  // 0 + −0 is 0, as in a sum that starts with 0
        for (int64_t k = 0; k < n; ++k) out[k] = 0 + a * b[k];
        first = false;
      } else {
        for (int64_t k = 0; k < n; ++k) out[k] += a * b[k];
      }
    }
  }
}

TENSORBOW_VECTORISED static void AddAll(const SparseProduct::Factors& factors,
                                        bool transposed, float* __restrict out) {
  const int64_t n = factors.columns;
  const int64_t *const to = factors.indices + (transposed ? 1 : 0),
                       *const from = factors.indices + (transposed ? 0 : 1);
  for (int64_t i = 0; i < factors.entries; ++i) {
    if (i + kAhead < factors.entries) {
      __builtin_prefetch(factors.b + from[2 * (i + kAhead)] * n);
    }
    const float a = factors.values[i];
    const float* const b = factors.b + from[2 * i] * n;
    float* __restrict c = out + to[2 * i] * n;
    for (int64_t k = 0; k < n; ++k) c[k] += a * b[k];
  }
}

void SparseProduct::Whole(const Factors& factors, bool transposed, float* out) {
  std::fill_n(out, (transposed ? factors.a_columns : factors.a_rows) * factors.columns,
              0.0f);
  AddAll(factors, transposed, out);
}

int64_t SparseProduct::FirstOutside(const Factors& factors) {
  for (int64_t i = 0; i < factors.entries; ++i) {
    const int64_t row = factors.indices[2 * i], column = factors.indices[2 * i + 1];
    if (row < 0 || row >= factors.a_rows || column < 0 || column >= factors.a_columns) {
      return i;
    }
  }
  return -1;
}

SparseProduct::SparseProduct(const Factors& factors)
    : factors_(factors), order_(factors.entries) {
  std::iota(order_.begin(), order_.end(), 0);
  Sort();
  for (int64_t i = 0; i < factors.entries; ++i) {
    const int64_t column = factors.indices[2 * order_[i] + 1];
    if (rows_.empty() || rows_.back() != column) {
      rows_.push_back(column);
      ends_.push_back(i);
    }
    ends_.back() = i + 1;
  }
}

void SparseProduct::Sort() {
  std::vector<int64_t> sorted(order_.size());
  for (int shift = 0; shift < 63 && (factors_.a_columns - 1) >> shift > 0;
       shift += kDigitBits) {
    const auto digit = [&](int64_t entry) {
      return factors_.indices[2 * entry + 1] >> shift & (kDigits - 1);
    };
    std::array<int64_t, kDigits> begin{};
    for (const int64_t entry : order_) ++begin[digit(entry)];
    int64_t sum = 0;
    for (int64_t& count : begin) {
      const int64_t next = sum + count;
      count = sum;
      sum = next;
    }
    for (const int64_t entry : order_) sorted[begin[digit(entry)]++] = entry;
    order_.swap(sorted);
  }
}

void SparseProduct::Compute(float* out) const {
  SumRows(factors_, order_.data(), ends_.data(), static_cast<int64_t>(rows_.size()),
          out);
}

}  // namespace tensorbow
