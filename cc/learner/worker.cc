#include "cc/learner/worker.h"

#include <pthread.h>
#include <sched.h>

#include <utility>

namespace tensorbow {

Worker::Worker(int cpu, std::chrono::microseconds spin)
    : gate_(spin), thread_([this, cpu] { Loop(cpu); }) {}

Worker::~Worker() {
  stop_.store(true, std::memory_order_release);
  gate_.Notify();
  thread_.join();
}

void Worker::Start(std::function<void()> job) {
  job_ = std::move(job);
  started_.fetch_add(1, std::memory_order_release);
  gate_.Notify();
}

void Worker::Wait() {
  const int64_t started = started_.load(std::memory_order_relaxed);
  gate_.Await([&] { return finished_.load(std::memory_order_acquire) == started; });
}

void Worker::Loop(int cpu) {
  if (cpu >= 0) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    // Best effort: a thread that may not be pinned works as well, only slower.
    pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
  }
  for (int64_t done = 0;; ++done) {
    gate_.Await([&] {
      return started_.load(std::memory_order_acquire) > done ||
             stop_.load(std::memory_order_acquire);
    });
    if (started_.load(std::memory_order_acquire) == done) return;
    job_();
    job_ = nullptr;
    finished_.store(done + 1, std::memory_order_release);
    gate_.Notify();
  }
}

}  // namespace tensorbow
