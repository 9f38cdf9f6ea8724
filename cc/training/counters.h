// Counters of the learning on this host. Thread-safe.
#ifndef TENSORBOW_CC_TRAINING_COUNTERS_H_
#define TENSORBOW_CC_TRAINING_COUNTERS_H_

#include <atomic>
#include <cstdint>

#include "cc/synchroniser/hosts/host_rounds.h"

namespace tensorbow {

class TrainingCounters {
 public:
  using Counts = HostRounds::Counts;

  void Add(const Counts& counts) {
    iterations_.fetch_add(counts.iterations);
    tasks_.fetch_add(counts.tasks);
    rows_.fetch_add(counts.rows);
  }
  void Set(const Counts& counts) {
    iterations_.store(counts.iterations);
    tasks_.store(counts.tasks);
    rows_.store(counts.rows);
  }
  Counts Get() const { return {iterations_.load(), tasks_.load(), rows_.load()}; }

 private:
  std::atomic<int64_t> iterations_{0};
  std::atomic<int64_t> tasks_{0};
  std::atomic<int64_t> rows_{0};
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINING_COUNTERS_H_
