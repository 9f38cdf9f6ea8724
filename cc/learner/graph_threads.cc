#include "cc/learner/graph_threads.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

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

// Where the `start` that the current thread is in puts its closures.
thread_local std::vector<GraphThreads::Closure>* collecting = nullptr;

}  // namespace

GraphThreads::GraphThreads(int count)
    : pool_(tensorflow::Env::Default(), "tensorbow_graph", count) {}

void GraphThreads::Begin(const Closure& start, bool helped) {
  const auto roots = std::make_shared<Roots>();
  std::vector<Closure>* const outer = std::exchange(collecting, &roots->closures);
  start();
  collecting = outer;
  const int threads = std::min<int>(pool_.NumThreads(), roots->closures.size());
  // A helper that comes late finds nothing left, and may come when all is over.
  for (int i = 1; helped && i < threads; ++i) {
    pool_.Schedule([roots] { roots->Execute(); });
  }
  roots->Execute();
}

void GraphThreads::Run(Closure closure) {
  if (collecting != nullptr) {
    collecting->push_back(std::move(closure));
  } else {
    pool_.Schedule(std::move(closure));
  }
}

}  // namespace tensorbow
