#include "cc/learner/worker.h"

#include <utility>

#include "cc/support/cpus.h"

namespace tensorbow {

Worker::Worker(const std::vector<int>& cpus, std::chrono::microseconds spin)
    : gate_(spin), thread_([this, cpus] {
        PinThisThread(cpus);
        Loop();
      }) {}

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

void Worker::Loop() {
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
