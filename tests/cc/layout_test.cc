#include "cc/tuner/layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace tensorbow {
namespace {

TEST(LayoutTest, EveryLearnerHasItsOwnThreads) {
  const Layout layout = Layout::Of({2, 1, 4});
  EXPECT_EQ(layout.learners, 3);
  EXPECT_EQ(layout.threads, 4);
  EXPECT_EQ(layout.threads_of(0, 1), 2);
  EXPECT_EQ(layout.threads_of(1, 1), 1);
  EXPECT_EQ(layout.threads_before(0, 1), 0);
  EXPECT_EQ(layout.threads_before(2, 1), 3);
  EXPECT_EQ(layout.threads_before(3, 1), 7);
}

TEST(LayoutTest, LearnersOfTheSamePlaceOnTwoDevicesHaveTheSame) {
  const Layout layout = Layout::Of({2, 1});
  EXPECT_EQ(layout.threads_of(0, 2), 2);
  EXPECT_EQ(layout.threads_of(1, 2), 2);
  EXPECT_EQ(layout.threads_of(2, 2), 1);
  EXPECT_EQ(layout.threads_of(3, 2), 1);
  EXPECT_EQ(layout.threads_before(3, 2), 5);
  EXPECT_EQ(layout.threads_before(4, 2), 6);
}

TEST(LayoutTest, EqualNumbersAreOneNumber) {
  EXPECT_EQ(Layout::Of({2, 2}), (Layout{2, 2}));
  EXPECT_EQ(Layout::Of({3}), (Layout{1, 3}));
  EXPECT_NE(Layout::Of({2, 1}), (Layout{2, 2}));
  EXPECT_NE(Layout::Of({2, 1}), Layout::Of({1, 2}));
}

TEST(LayoutTest, OneWithoutThreadsOfItsOwnCountsAsOne) {
  const Layout lone = {1, 0};
  EXPECT_EQ(lone.threads_of(0, 1), 0);
  EXPECT_EQ(lone.threads_before(1, 1), 1);
}

}  // namespace
}  // namespace tensorbow
