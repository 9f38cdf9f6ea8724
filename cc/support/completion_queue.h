// Closures for one thread, posted by any thread: the completions of asynchronous
// operations, executed by the thread that waits for them. Thread-safe; one thread at a
// time executes them.
#ifndef TENSORBOW_CC_SUPPORT_COMPLETION_QUEUE_H_
#define TENSORBOW_CC_SUPPORT_COMPLETION_QUEUE_H_

#include <deque>
#include <functional>
#include <utility>

#include "cc/support/mutex.h"

namespace tensorbow {

class CompletionQueue {
 public:
  // Adds a closure. The thread that is, or will be, inside RunUntil() executes it.
  // REQUIRES: `closure` is not null.
  void Post(std::function<void()> closure) TENSORBOW_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    closures_.push_back(std::move(closure));
    posted_.NotifyOne();
  }
  // Calls `finish`, which makes `finished()` true, with the queue locked. RunUntil()
  // may return afterwards, and the queue may then be deleted.
  template <typename Finish>
  void Wake(Finish finish) TENSORBOW_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    finish();
    posted_.NotifyOne();
  }

  // Executes closures, in the order in which they were posted, until `finished()` is
  // true and none is left. A closure may post others. `finished` is called with the
  // queue locked: it must not use it.
  template <typename Predicate>
  void RunUntil(Predicate finished) TENSORBOW_EXCLUDES(mu_) {
    while (const std::function<void()> closure = Next(finished)) closure();
  }

 private:
  // Waits for a closure and returns it; null once there is none and `finished()` is
  // true.
  template <typename Predicate>
  std::function<void()> Next(const Predicate& finished) TENSORBOW_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    while (closures_.empty()) {
      if (finished()) return nullptr;
      posted_.Wait(&mu_);
    }
    std::function<void()> closure = std::move(closures_.front());
    closures_.pop_front();
    return closure;
  }

  Mutex mu_;
  Condition posted_;
  std::deque<std::function<void()>> closures_ TENSORBOW_GUARDED_BY(mu_);
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SUPPORT_COMPLETION_QUEUE_H_
