// Threads that execute a graph together. All users of a number of threads share them in
// the whole process, as with stock sessions' inter-op pools.
#ifndef TENSORBOW_CC_LEARNER_GRAPH_THREADS_H_
#define TENSORBOW_CC_LEARNER_GRAPH_THREADS_H_

#include <functional>
#include <vector>

#include "tensorflow/core/platform/threadpool.h"

namespace tensorbow {

class GraphThreads {
 public:
  using Closure = std::function<void()>;

  // Takes threads that exist for the rest of the process.
  explicit GraphThreads(int count);

  // Calls `start`, then executes its closures of Run() on this thread, with the other
  // threads' help if `helped`. (In a stock session the caller waits for the pool, which
  // takes half of the time of a small graph.)
  void Begin(const Closure& start, bool helped);
  // Executes a closure: on another thread or, if the `start` of a Begin() on this
  // thread calls it, inside of that Begin().
  void Run(Closure closure);

 private:
  tensorflow::thread::ThreadPool* const pool_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_GRAPH_THREADS_H_
