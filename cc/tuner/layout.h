// How the cores of a device are divided: among so many learners, each of so many
// threads, or of a number of its own.
#ifndef TENSORBOW_CC_TUNER_LAYOUT_H_
#define TENSORBOW_CC_TUNER_LAYOUT_H_

#include <algorithm>
#include <utility>
#include <vector>

namespace tensorbow {

struct Layout {
  int learners = 1;  // on one device
  // That the kernels of a learner may share their work among; 0: those on which the
  // session's reads and writes compute, as a stock session's do. The most of them,
  // where learners have different numbers.
  int threads = 1;
  // By learner on a device, where they are different; else empty.
  std::vector<int> threads_of_each = {};

  // REQUIRES: there is a number for each learner, at least 1.
  static Layout Of(std::vector<int> threads) {
    const int learners = static_cast<int>(threads.size());
    const auto [least, most] = std::minmax_element(threads.begin(), threads.end());
    if (*least == *most) return {learners, *most};
    const int max = *most;
    return {learners, max, std::move(threads)};
  }

  // Of a learner, where learner j is on device j modulo their number.
  int threads_of(int learner, int num_devices) const {
    return threads_of_each.empty() ? threads : threads_of_each[learner / num_devices];
  }
  // Of all learners before this one. One without threads of its own counts as one.
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
