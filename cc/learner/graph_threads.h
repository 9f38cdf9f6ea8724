// Threads that execute a graph together. As with stock sessions' inter-op pools, all
// users of so many threads share them, in the whole process.
#ifndef TENSORBOW_CC_LEARNER_GRAPH_THREADS_H_
#define TENSORBOW_CC_LEARNER_GRAPH_THREADS_H_

#include <functional>
#include <vector>

#include "tensorflow/core/platform/threadpool.h"

namespace tensorbow {

class GraphThreads {
 public:
  using Closure = std::function<void()>;

  // The threads are there for good.
  explicit GraphThreads(int count);

  // Calls `start`, then executes what that has given to Run() on this thread, with the
  // others' help if `helped`. (A stock session leaves this to its pool, too, and its
  // caller waits, which takes a small graph half of its time.)
  void Begin(const Closure& start, bool helped);
  // Executes a closure: on another thread, or, if called by the `start` of a Begin() on
  // this thread, inside of that.
  void Run(Closure closure);

 private:
  tensorflow::thread::ThreadPool* const pool_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_GRAPH_THREADS_H_
