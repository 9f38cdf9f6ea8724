#include "cc/support/gate.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace {

std::atomic<int> yields{0};

}  // namespace

// Replaces libc's function: counts how often the core is offered to other threads.
extern "C" int sched_yield() noexcept {
  yields.fetch_add(1);
  return static_cast<int>(syscall(SYS_sched_yield));
}

namespace tensorbow {
namespace {

// Long enough to observe a spinning thread.
constexpr std::chrono::seconds kLong(10);

class GateTest : public testing::TestWithParam<std::chrono::microseconds> {};

TEST_P(GateTest, TrueConditionReturnsAtOnce) {
  Gate gate(GetParam());
  gate.Await([] { return true; });
}

// Two threads pass a token back and forth: a lost wake-up would hang.
TEST_P(GateTest, NoWakeUpIsLost) {
  Gate gate(GetParam());
  std::atomic<int> turn{0};
  constexpr int kRounds = 20000;
  auto play = [&](int mine) {
    for (int i = 0; i < kRounds; ++i) {
      gate.Await([&] { return turn.load() % 2 == mine; });
      turn.fetch_add(1);
      gate.Notify();
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  EXPECT_EQ(turn.load(), 2 * kRounds);
}

TEST_P(GateTest, NotifyWakesEveryWaiter) {
  Gate gate(GetParam());
  std::atomic<bool> open{false};
  std::atomic<int> through{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      gate.Await([&] { return open.load(); });
      through.fetch_add(1);
    });
  }
  open.store(true);
  gate.Notify();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(through.load(), 8);
}

// A pipeline's threads get the core of a learner that waits for its elements.
TEST(GateSpinTest, LongWaitOffersItsCore) {
  Gate gate(kLong);
  const int before = yields.load();
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  gate.Await([&] {
    return yields.load() >= before + 3 || std::chrono::steady_clock::now() >= deadline;
  });
  EXPECT_GE(yields.load(), before + 3);
}

TEST(GateSpinTest, ShortWaitKeepsItsCore) {
  Gate gate(kLong);
  const int before = yields.load();
  int looks = 0;
  gate.Await([&] { return ++looks == 10; });
  EXPECT_EQ(yields.load(), before);
}

INSTANTIATE_TEST_SUITE_P(Spin, GateTest,
                         testing::Values(std::chrono::microseconds(0),
                                         std::chrono::microseconds(100)));

}  // namespace
}  // namespace tensorbow
