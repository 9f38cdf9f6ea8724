// How the cores of a device are divided: among so many learners, each of so many
// threads.
#ifndef TENSORBOW_CC_TUNER_LAYOUT_H_
#define TENSORBOW_CC_TUNER_LAYOUT_H_

namespace tensorbow {

struct Layout {
  int learners = 1;  // on one device
  // That the kernels of a learner may share their work among; 0: those on which the
  // session's reads and writes compute, as a stock session's do.
  int threads = 1;

  friend bool operator==(const Layout& a, const Layout& b) {
    return a.learners == b.learners && a.threads == b.threads;
  }
  friend bool operator!=(const Layout& a, const Layout& b) { return !(a == b); }
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TUNER_LAYOUT_H_
