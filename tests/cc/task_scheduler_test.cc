#include "cc/scheduler/task_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace tensorbow {
namespace {

using Policy = SchedulingPolicy;

TEST(TaskSchedulerTest, RoundRobinGivesTaskKToLearnerKModL) {
  TaskScheduler scheduler(3);
  scheduler.Begin(7, Policy::kRoundRobin);
  for (int k : {0, 3, 6}) EXPECT_EQ(scheduler.Next(0)->task, k);
  EXPECT_FALSE(scheduler.Next(0).has_value());
  for (int k : {1, 4}) EXPECT_EQ(scheduler.Next(1)->task, k);
  EXPECT_FALSE(scheduler.Next(1).has_value());
  const auto assignment = scheduler.Next(2);
  EXPECT_EQ(assignment->task, 2);
  EXPECT_EQ(assignment->iteration, 0);
  EXPECT_EQ(scheduler.Next(2)->iteration, 1);
  EXPECT_FALSE(scheduler.Next(2).has_value());
}

TEST(TaskSchedulerTest, CountsIterationsAndParticipants) {
  TaskScheduler scheduler(3);
  scheduler.Begin(7, Policy::kFirstComeFirstServed);
  EXPECT_EQ(scheduler.num_iterations(), 3);
  EXPECT_EQ(scheduler.participants(0), 3);
  EXPECT_EQ(scheduler.participants(1), 3);
  EXPECT_EQ(scheduler.participants(2), 1);
  EXPECT_EQ(scheduler.participants(3), 0);
}

TEST(TaskSchedulerTest, FirstComeFirstServedFollowsTheOrderOfAsking) {
  TaskScheduler scheduler(2);
  scheduler.Begin(4, Policy::kFirstComeFirstServed);
  EXPECT_EQ(scheduler.Next(1)->task, 1);  // task 0 is kept for learner 0
  EXPECT_EQ(scheduler.Next(1)->task, 2);  // faster: one iteration ahead
  EXPECT_FALSE(scheduler.Next(1).has_value());
  EXPECT_EQ(scheduler.Next(0)->task, 0);
  EXPECT_EQ(scheduler.Next(0)->task, 3);
  EXPECT_FALSE(scheduler.Next(0).has_value());
}

TEST(TaskSchedulerTest, FastLearnersTakeTheShortLastIteration) {
  TaskScheduler scheduler(3);
  scheduler.Begin(4, Policy::kFirstComeFirstServed);
  EXPECT_TRUE(scheduler.Next(2).has_value());
  EXPECT_EQ(scheduler.Next(2)->iteration, 1);
  EXPECT_TRUE(scheduler.Next(0).has_value());
  EXPECT_FALSE(scheduler.Next(0).has_value());
  EXPECT_TRUE(scheduler.Next(1).has_value());
  EXPECT_FALSE(scheduler.Next(1).has_value());
}

TEST(TaskSchedulerTest, FewerTasksThanLearnersStillLeavesOneForLearner0) {
  TaskScheduler scheduler(4);
  scheduler.Begin(2, Policy::kFirstComeFirstServed);
  EXPECT_EQ(scheduler.Next(3)->task, 1);
  EXPECT_FALSE(scheduler.Next(1).has_value());
  EXPECT_FALSE(scheduler.Next(2).has_value());
  EXPECT_EQ(scheduler.Next(0)->task, 0);
  EXPECT_FALSE(scheduler.Next(0).has_value());
}

TEST(TaskSchedulerTest, NoTasks) {
  TaskScheduler scheduler(2);
  for (Policy policy : {Policy::kFirstComeFirstServed, Policy::kRoundRobin}) {
    scheduler.Begin(0, policy);
    EXPECT_FALSE(scheduler.Next(0).has_value());
    EXPECT_FALSE(scheduler.Next(1).has_value());
    EXPECT_EQ(scheduler.num_iterations(), 0);
  }
}

// Every task is handed out once in any order of calls. Every learner gets one task in
// each full iteration, and nobody is more than the short iteration ahead.
TEST(TaskSchedulerTest, EveryTaskOnceInAnyOrderOfAsking) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const int learners = 1 + random() % 5;
    const int tasks = random() % 20;
    TaskScheduler scheduler(learners);
    scheduler.Begin(tasks, Policy::kFirstComeFirstServed);
    std::vector<int> active(learners);
    std::iota(active.begin(), active.end(), 0);
    std::set<int64_t> given;
    std::vector<std::vector<int>> takers(scheduler.num_iterations());
    while (!active.empty()) {
      const size_t who = random() % active.size();
      const auto assignment = scheduler.Next(active[who]);
      if (!assignment.has_value()) {
        active.erase(active.begin() + who);
        continue;
      }
      EXPECT_TRUE(given.insert(assignment->task).second);
      takers[assignment->iteration].push_back(active[who]);
    }
    EXPECT_EQ(given.size(), static_cast<size_t>(tasks));
    for (size_t i = 0; i < takers.size(); ++i) {
      EXPECT_EQ(takers[i].size(), static_cast<size_t>(scheduler.participants(i)));
      std::sort(takers[i].begin(), takers[i].end());
      EXPECT_EQ(std::unique(takers[i].begin(), takers[i].end()), takers[i].end());
    }
  }
}

TEST(TaskSchedulerTest, ConcurrentAskingLosesNothing) {
  constexpr int kLearners = 4, kTasks = 10001;
  TaskScheduler scheduler(kLearners);
  scheduler.Begin(kTasks, Policy::kFirstComeFirstServed);
  std::vector<std::vector<int64_t>> taken(kLearners);
  std::vector<std::thread> threads;
  for (int j = 0; j < kLearners; ++j) {
    threads.emplace_back([&, j] {
      while (const auto assignment = scheduler.Next(j)) {
        taken[j].push_back(assignment->task);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::set<int64_t> all;
  for (const auto& tasks : taken) {
    EXPECT_GE(tasks.size(), static_cast<size_t>(kTasks / kLearners));
    all.insert(tasks.begin(), tasks.end());
  }
  EXPECT_EQ(all.size(), static_cast<size_t>(kTasks));
}

}  // namespace
}  // namespace tensorbow
