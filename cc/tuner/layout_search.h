// The strategies of LayoutTuner: they choose the layouts to measure, and the one to
// keep. They hold no state between calls; all they know is in the trials.
#ifndef TENSORBOW_CC_TUNER_LAYOUT_SEARCH_H_
#define TENSORBOW_CC_TUNER_LAYOUT_SEARCH_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "cc/tuner/layout.h"

namespace tensorbow {

// A layout and its throughput in every window in which it was measured.
struct Trial {
  double Median() const;
  double Range() const;  // from the slowest to the fastest, as a share of the median

  Layout layout;
  std::vector<double> rates;    // samples per second
  std::optional<size_t> entry;  // the index in LayoutTuner::log()
};

class LayoutSearch {
 public:
  virtual ~LayoutSearch() = default;

  // Returns the layout to measure next, or one of `trials` for a more accurate
  // measurement; nullopt when the search is over. All of `trials` have rates. The
  // result has fewer than `limit` learners, the least number that has failed.
  virtual std::optional<Layout> Next(const std::vector<Trial>& trials,
                                     int limit) const = 0;

  // Returns the index of the trial to settle on. REQUIRES: `trials` is not empty.
  virtual size_t Best(const std::vector<Trial>& trials) const = 0;
};

// Searches on `cores` cores, m learners with cores / m threads each.
//
// 1. m climbs the divisors of `cores` from 1, which is how a stock session computes,
//    until the throughput is below the highest so far by more than 10 % and chance. Up
//    to four divisors are all measured: skipping one saves little.
// 2. Both neighbours m ± 1 of the highest are measured, and again those of a new
//    highest, unless it is 1 or `cores`. On a plateau that ends soon: one more record
//    among equal layouts becomes rarer with each.
// 3. If the measurements scatter so much that others may be as fast as the highest,
//    these are measured again, the ones with the fewest windows first, to 12 each.
//
// Best() takes the fewest learners among those within `threshold` of the highest. Each
// learner is one more replica to average; a gain below the accuracy of the measurement
// does not justify it.
std::unique_ptr<LayoutSearch> SearchOnCores(int cores, double threshold = 0.02);

// Searches on an accelerator by CROSSBOW's Algorithm 2: adds a learner as long as that
// raises the throughput by more than `threshold`, then takes the highest.
// `most_learners` is the limit; `threads` is every layout's. Samples per second replace
// the paper's tasks per second: all tasks of one program have the same number of
// samples.
std::unique_ptr<LayoutSearch> SearchOnDevice(int most_learners, int threads,
                                             double threshold = 0.1);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TUNER_LAYOUT_SEARCH_H_
