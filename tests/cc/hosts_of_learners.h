// Hosts that average models together, each with learners of its own: threads here
// (fake_hosts.h).
#ifndef TENSORBOW_TESTS_CC_HOSTS_OF_LEARNERS_H_
#define TENSORBOW_TESTS_CC_HOSTS_OF_LEARNERS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/cc/fake_hosts.h"
#include "tests/cc/learners.h"

namespace tensorbow {

constexpr int kHosts = 2;

using Centre = SmaOptions::Centre;

inline AlgorithmCase Averaging(int learners, int64_t period = 1,
                               Centre centre = Centre::kCurrent) {
  const double momentum = centre == Centre::kLagging ? 0.9 : 0;
  return {
      "", AlgorithmCase::Kind::kSma, {centre, 1.0 / learners, period, momentum}, 0.9};
}

// The learners of each host, which work on a thread of its own.
class HostsOfLearners {
 public:
  HostsOfLearners(const AlgorithmCase& algorithm, int count, Update update) {
    for (int rank = 0; rank < kHosts; ++rank) {
      hosts_.push_back(std::make_unique<Learners>(
          algorithm, count, update, std::chrono::microseconds(0), /*skips=*/false,
          cluster_.host(rank)));
    }
  }
  Learners& operator[](int rank) { return *hosts_[rank]; }
  void Do(const std::function<void(int rank, Learners& host)>& what) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kHosts; ++rank) {
      threads.emplace_back([&, rank] { what(rank, *hosts_[rank]); });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  FakeCluster cluster_{kHosts};
  std::vector<std::unique_ptr<Learners>> hosts_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_TESTS_CC_HOSTS_OF_LEARNERS_H_
