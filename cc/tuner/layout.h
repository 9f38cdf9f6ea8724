// The division of a device's cores among learners: the number of learners, and the
// threads of each.
#ifndef TENSORBOW_CC_TUNER_LAYOUT_H_
#define TENSORBOW_CC_TUNER_LAYOUT_H_

#include <algorithm>
#include <utility>
#include <vector>

namespace tensorbow {

struct Layout {
  int learners = 1;  // on one device
  // The threads that the kernels of a learner share; 0: those of the session's reads
  // and writes, as in a stock session. The maximum, if learners have different numbers.
  int threads = 1;
  // The threads by learner on a device, if the numbers differ; else empty.
  std::vector<int> threads_of_each = {};

  // Returns the layout with these threads. REQUIRES: a number for each learner, at
  // least 1.
  static Layout Of(std::vector<int> threads) {
    const int learners = static_cast<int>(threads.size());
    const auto [least, most] = std::minmax_element(threads.begin(), threads.end());
    if (*least == *most) return {learners, *most};
    const int max = *most;
    return {learners, max, std::move(threads)};
  }

  // Returns the threads of a learner; learner j is on device j modulo their number.
  int threads_of(int learner, int num_devices) const {
    return threads_of_each.empty() ? threads : threads_of_each[learner / num_devices];
  }
  // Returns the threads of all learners before this one; a learner with 0 counts as
  // one.
  int threads_before(int learner, int num_devices) const {
    int sum = 0;
    for (int j = 0; j < learner; ++j) sum += std::max(1, threads_of(j, num_devices));
    return sum;
  }

  friend bool operator==(const Layout& a, const Layout& b) {
    return a.learners == b.learners && a.threads == b.threads &&
           a.threads_of_each == b.threads_of_each;
  }
  friend bool operator!=(const Layout& a, const Layout& b) { return !(a == b); }
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TUNER_LAYOUT_H_
