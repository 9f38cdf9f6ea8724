#include "cc/synchroniser/algorithms/ssgd.h"

#include <type_traits>

#include "cc/arithmetic/mean.h"
#include "cc/arithmetic/mean_of_rows.h"
#include "cc/synchroniser/hosts/host_gradients.h"

namespace tensorbow {

// A fused update that was executed has already moved the average, slice by slice.
void Ssgd::Complete(const TrainedSet& set, bool, const std::vector<int>& participants) {
  if (participants.empty()) return;  // other hosts' iteration
  for (int member = 0; member < set.size(); ++member) {
    CentralModel::Variable& variable = central_->variable(set.variable(member));
    const char* const weights =
        static_cast<const char*>(set.weights(participants.front(), member));
    for (int s = 0; s < variable.num_slices(); ++s) {
      if (variable.has_averaged_next(s)) continue;
      variable.AverageNext(
          s, weights + variable.slice(s).begin * ElementSizeBytes(variable.type()));
    }
    variable.NextIteration();
  }
}

bool ReduceGradient(const LearnerExchange& exchange, int gradient, ElementType type,
                    int64_t n, const void* own, void* mean) {
  struct Brought {
    const void* values;
    double share;
  };
  const Brought mine{own, exchange.share()};
  const std::vector<const void*> all = exchange.AllGather(gradient, &mine);
  if (all.empty()) return false;
  const int64_t begin = NowNanos();
  WithStorageType(type, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    std::vector<const S*> values;
    std::vector<double> shares;
    bool equal = true;
    for (const void* brought : all) {
      const auto* const others = static_cast<const Brought*>(brought);
      values.push_back(static_cast<const S*>(others->values));
      shares.push_back(others->share);
      equal &= others->share == 1;
    }
    const int count = static_cast<int>(values.size());
    if (equal) {
      Mean(values.data(), count, n, static_cast<S*>(mean));
    } else {
      Mean(values.data(), shares.data(), count, n, static_cast<S*>(mean));
    }
  });
  if (exchange.activity() != nullptr) {
    exchange.activity()->Note(Activity::kAverage, begin, NowNanos());
  }
  exchange.Release(gradient);
  return true;
}

bool SendGradient(const LearnerExchange& exchange, int gradient, const void* own) {
  const HostGradients::Values mine{own, exchange.share()};
  const std::vector<const void*> all = exchange.AllGather(gradient, &mine);
  if (all.empty()) return false;
  HostGradients* const sums = exchange.set()->host_gradients.get();
  std::vector<HostGradients::Values> learners;
  double count = 0;
  int part = 0;
  for (const void* brought : all) {
    if (brought == &mine) part = static_cast<int>(learners.size());
    learners.push_back(*static_cast<const HostGradients::Values*>(brought));
    count += learners.back().share;
  }
  {
    const ScopedActivity averaging(exchange.activity(), Activity::kAverage);
    sums->Add(gradient, learners, part, static_cast<int>(learners.size()));
  }
  exchange.Release(gradient);
  if (part == 0) sums->Send(gradient, count);
  return true;
}

bool ReduceRows(
    const LearnerExchange& exchange, int gradient, const RowGradient& own,
    const std::function<void*(const std::vector<int64_t>& rows)>& allocate) {
  struct Brought {
    const RowGradient* gradient;
    double share;
  };
  const Brought mine{&own, exchange.share()};
  const std::vector<const void*> all = exchange.AllGather(gradient, &mine);
  if (all.empty()) return false;
  const int64_t begin = NowNanos();
  bool alike = true;
  WithStorageType(own.type, [&](auto* storage) {
    using S = std::remove_pointer_t<decltype(storage)>;
    std::vector<LearnerRows<S>> learners;
    for (const void* brought : all) {
      const auto* const others = static_cast<const Brought*>(brought);
      alike &= others->gradient->row_size == own.row_size;
      learners.push_back({&others->gradient->rows,
                          static_cast<const S*>(others->gradient->values),
                          others->share});
    }
    if (!alike) return;
    const std::vector<int64_t> rows = UnionOfRows(learners);
    void* const mean = allocate(rows);
    if (mean != nullptr) {
      MeanOfRows(learners, rows, own.row_size, static_cast<S*>(mean));
    }
  });
  if (exchange.activity() != nullptr) {
    exchange.activity()->Note(Activity::kAverage, begin, NowNanos());
  }
  exchange.Release(gradient);
  return alike;
}

}  // namespace tensorbow
