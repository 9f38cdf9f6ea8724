// Closures for one thread, posted by any thread: how the completions of asynchronous
// operations come back to the thread that waits for them. Thread-safe; one thread at a
// time runs them.
#ifndef TENSORBOW_CC_SUPPORT_COMPLETION_QUEUE_H_
#define TENSORBOW_CC_SUPPORT_COMPLETION_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace tensorbow {

class CompletionQueue {
 public:
  // The closure is run by the thread that is, or will be, inside RunUntil().
  void Post(std::function<void()> closure) {
    std::lock_guard<std::mutex> lock(mu_);
    closures_.push_back(std::move(closure));
    posted_.notify_one();
  }
  // `finished` may have become true.
  void Wake() {
    std::lock_guard<std::mutex> lock(mu_);
    posted_.notify_one();
  }

  // Runs closures, in the order in which they were posted, until `finished()` is true
  // and none is left. A closure may post others.
  template <typename Predicate>
  void RunUntil(Predicate finished) {
    std::unique_lock<std::mutex> lock(mu_);
    while (true) {
      posted_.wait(lock, [&] { return !closures_.empty() || finished(); });
      if (closures_.empty()) return;
      const std::function<void()> closure = std::move(closures_.front());
      closures_.pop_front();
      lock.unlock();
      closure();
      lock.lock();
    }
  }

 private:
  std::mutex mu_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> closures_;  // guarded by mu_
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SUPPORT_COMPLETION_QUEUE_H_
