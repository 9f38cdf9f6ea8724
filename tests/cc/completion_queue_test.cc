#include "cc/support/completion_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace tensorbow {
namespace {

TEST(CompletionQueue, RunsClosuresInTheOrderInWhichTheyWerePosted) {
  CompletionQueue queue;
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) queue.Post([&order, i] { order.push_back(i); });
  queue.RunUntil([] { return true; });
  std::vector<int> posted(100);
  for (int i = 0; i < 100; ++i) posted[i] = i;
  EXPECT_EQ(order, posted);
}

TEST(CompletionQueue, RunsClosuresOfOtherThreadsOnTheWaitingOne) {
  constexpr int kThreads = 4, kEach = 250;
  CompletionQueue queue;
  std::vector<std::vector<int>> order(kThreads);  // by poster
  int elsewhere = 0, done = 0;
  const std::thread::id waiting = std::this_thread::get_id();
  std::vector<std::thread> posters;
  for (int t = 0; t < kThreads; ++t) {
    posters.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        queue.Post([&, t, i] {
          order[t].push_back(i);
          elsewhere += std::this_thread::get_id() != waiting;
          ++done;
        });
      }
    });
  }
  queue.RunUntil([&] { return done == kThreads * kEach; });
  for (std::thread& poster : posters) poster.join();
  std::vector<int> each(kEach);
  for (int i = 0; i < kEach; ++i) each[i] = i;
  for (const std::vector<int>& mine : order) EXPECT_EQ(mine, each);
  EXPECT_EQ(elsewhere, 0);
}

TEST(CompletionQueue, APostWakesTheWaitingThread) {
  CompletionQueue queue;
  std::promise<void> waits;
  bool ran = false, told = false;
  std::thread poster([&] {
    waits.get_future().wait();
    queue.Post([&ran] { ran = true; });
  });
  queue.RunUntil([&] {
    // Evaluated with the queue locked, so the closure is posted while this thread
    // waits.
    if (!std::exchange(told, true)) waits.set_value();
    return ran;
  });
  EXPECT_TRUE(ran);
  poster.join();
}

TEST(CompletionQueue, WakeMakesTheWaitingThreadAskAgain) {
  CompletionQueue queue;
  std::promise<void> waits;
  bool finished = false;  // changed with the queue locked
  bool told = false;
  std::thread other([&] {
    waits.get_future().wait();
    queue.Wake([&] { finished = true; });
  });
  queue.RunUntil([&] {
    if (!std::exchange(told, true)) waits.set_value();
    return finished;
  });
  EXPECT_TRUE(finished);
  other.join();
}

TEST(CompletionQueue, MayBeDeletedOnceWhatItWaitedForIsFinished) {
  for (int i = 0; i < 2000; ++i) {
    auto queue = std::make_unique<CompletionQueue>();
    bool finished = false;
    std::thread other(
        [&finished, queue = queue.get()] { queue->Wake([&] { finished = true; }); });
    queue->RunUntil([&] { return finished; });
    queue.reset();
    other.join();
  }
}

TEST(CompletionQueue, AClosureMayPostAnother) {
  CompletionQueue queue;
  std::vector<int> order;
  queue.Post([&] {
    order.push_back(1);
    queue.Post([&] {
      order.push_back(3);
      queue.Post([&] { order.push_back(4); });
    });
  });
  queue.Post([&] { order.push_back(2); });
  queue.RunUntil([] { return true; });
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

TEST(CompletionQueue, ReturnsOnlyWhenFinishedAndEmpty) {
  CompletionQueue queue;
  queue.RunUntil([] { return true; });  // both are true from the start

  // Finished after the first of three, but all of them are executed.
  bool finished = false;
  int ran = 0;
  queue.Post([&] { finished = true, ++ran; });
  queue.Post([&] { ++ran; });
  queue.Post([&] { ++ran; });
  queue.RunUntil([&] { return finished; });
  EXPECT_EQ(ran, 3);

  // Empty after the first of two that are posted one after the other: it waits.
  std::promise<void> first_ran;
  std::thread poster([&] {
    queue.Post([&] { first_ran.set_value(); });
    first_ran.get_future().wait();
    queue.Post([&] { ran = 5; });
  });
  queue.RunUntil([&] { return ran == 5; });
  EXPECT_EQ(ran, 5);
  poster.join();
}

TEST(CompletionQueue, RunsAgainAfterItHasReturned) {
  CompletionQueue queue;
  int ran = 0;
  for (int round = 1; round <= 3; ++round) {
    queue.Post([&] { ++ran; });
    queue.RunUntil([] { return true; });
    EXPECT_EQ(ran, round);
  }
}

}  // namespace
}  // namespace tensorbow
