// A gate: threads wait at it for a condition that other threads make true.
//
// Waiting spins for a short while (a learner's neighbour is usually microseconds away)
// and then blocks. After the first kAlone of spinning, it repeatedly offers its core to
// threads that are ready to run (an input pipeline's, another program's). If there are
// none, it continues to spin, and so sees the change at once. The condition is a
// predicate over atomics; the thread that makes it true calls Notify() afterwards.
// Thread-safe.
#ifndef TENSORBOW_CC_SUPPORT_GATE_H_
#define TENSORBOW_CC_SUPPORT_GATE_H_

#include <atomic>
#include <chrono>
#include <thread>

#include "cc/support/mutex.h"

namespace tensorbow {

inline void CpuRelax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

class Gate {
 public:
  // The time for which a spinning thread keeps its core from others.
  static constexpr std::chrono::microseconds kAlone{20};

  // `spin`: the time for which Await() polls before it blocks; zero when there are more
  // waiting threads than cores.
  explicit Gate(std::chrono::microseconds spin) : spin_(spin) {}

  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Returns once `ready()` is true. `ready` is called from this thread, any
  // number of times, and must not block.
  template <typename Predicate>
  void Await(Predicate ready) TENSORBOW_EXCLUDES(mu_) {
    if (ready()) return;
    const auto begin = std::chrono::steady_clock::now();
    while (spin_.count() > 0) {
      for (int i = 0; i < 64; ++i) {
        if (ready()) return;
        CpuRelax();
      }
      const auto waited = std::chrono::steady_clock::now() - begin;
      if (waited >= spin_) break;
      if (waited >= kAlone) std::this_thread::yield();
    }
    MutexLock lock(&mu_);
    // Pairs with the read-modify-write in Notify(): either Notify() sees this waiter,
    // or `ready` below sees the values stored before it.
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    while (!ready()) changed_.Wait(&mu_);
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }

  // Wakes all waiting threads, which check their conditions.
  void Notify() TENSORBOW_EXCLUDES(mu_) {
    if (waiters_.fetch_add(0, std::memory_order_seq_cst) == 0) return;
    {
      MutexLock lock(&mu_);
    }
    changed_.NotifyAll();
  }

 private:
  const std::chrono::microseconds spin_;
  std::atomic<int> waiters_{0};
  Mutex mu_;
  Condition changed_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SUPPORT_GATE_H_
