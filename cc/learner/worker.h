// The thread of a learner other than the caller's. It runs one job at a time and spins
// for a moment between jobs, because the next run is usually near. Start() and Wait()
// are called by one thread.
#ifndef TENSORBOW_CC_LEARNER_WORKER_H_
#define TENSORBOW_CC_LEARNER_WORKER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "cc/support/gate.h"

namespace tensorbow {

class Worker {
 public:
  // `cpus`: the CPUs to bind the thread to; empty for any.
  Worker(const std::vector<int>& cpus, std::chrono::microseconds spin);
  ~Worker();

  // Starts a job. REQUIRES: the previous job has been waited for.
  void Start(std::function<void()> job);
  void Wait();

 private:
  void Loop();

  Gate gate_;
  std::function<void()> job_;
  // Started jobs, finished jobs; each release store pairs with the acquire load of the
  // other side's Await.
  std::atomic<int64_t> started_{0};
  std::atomic<int64_t> finished_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_WORKER_H_
