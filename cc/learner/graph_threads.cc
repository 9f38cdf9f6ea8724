#include "cc/learner/graph_threads.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <utility>

#include "cc/support/mutex.h"
#include "tensorflow/core/platform/env.h"

namespace tensorbow {

namespace {

// The nodes without inputs; threads that execute them take the next one in turn.
struct Roots {
  void Execute() {
    for (size_t i = next.fetch_add(1); i < closures.size(); i = next.fetch_add(1)) {
      closures[i]();
    }
  }

  std::vector<GraphThreads::Closure> closures;
  std::atomic<size_t> next{0};
};

tensorflow::thread::ThreadPool* PoolOf(int count) {
  static Mutex mu;
  static auto* const pools =
      new std::map<int, std::unique_ptr<tensorflow::thread::ThreadPool>>;
  MutexLock lock(&mu);
  std::unique_ptr<tensorflow::thread::ThreadPool>& pool = (*pools)[count];
  if (pool == nullptr) {
    pool = std::make_unique<tensorflow::thread::ThreadPool>(tensorflow::Env::Default(),
                                                            "tensorbow_graph", count);
  }
  return pool.get();
}

// The closures of the `start` that the current thread is executing.
thread_local std::vector<GraphThreads::Closure>* collecting = nullptr;

}  // namespace

GraphThreads::GraphThreads(int count) : pool_(PoolOf(count)) {}

void GraphThreads::Begin(const Closure& start, bool helped) {
  const auto roots = std::make_shared<Roots>();
  std::vector<Closure>* const outer = std::exchange(collecting, &roots->closures);
  start();
  collecting = outer;
  const int threads = std::min<int>(pool_->NumThreads(), roots->closures.size());
  // A late helper finds nothing left, perhaps after the end.
  for (int i = 1; helped && i < threads; ++i) {
    pool_->Schedule([roots] { roots->Execute(); });
  }
  roots->Execute();
}

void GraphThreads::Run(Closure closure) {
  if (collecting != nullptr) {
    collecting->push_back(std::move(closure));
  } else {
    pool_->Schedule(std::move(closure));
  }
}

}  // namespace tensorbow
