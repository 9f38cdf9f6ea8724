#include "cc/device/gpu/captured_waits.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace tensorbow {
namespace {

std::string Written(const std::string& content) {
  // A path of this test's own: tests run side by side.
  const std::string path =
      ::testing::TempDir() + "gpu_events_passed." +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::ofstream(path) << content;
  return path;
}

TEST(CapturedWaitsTest, AreNotUsedUntilTheEventsCheckHasPassed) {
  EXPECT_FALSE(EventsHavePassed("", 13000));
  EXPECT_FALSE(EventsHavePassed(::testing::TempDir() + "no such file", 13000));
  EXPECT_FALSE(EventsHavePassed(Written(""), 13000));
  EXPECT_FALSE(EventsHavePassed(Written("something else"), 13000));
}

TEST(CapturedWaitsTest, AreUsedWithTheDriverThatPassed) {
  const std::string file = Written("driver 12040\ndriver 13000\n");
  EXPECT_TRUE(EventsHavePassed(file, 13000));
  EXPECT_TRUE(EventsHavePassed(file, 12040));
  EXPECT_FALSE(EventsHavePassed(file, 12080));
}

TEST(CapturedWaitsTest, FileIsInTheUsersCache) {
  setenv("HOME", "/home/someone", 1);
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(EventsPassedFile(), "/home/someone/.cache/tensorbow/gpu_events_passed");
  setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(EventsPassedFile(), "/cache/tensorbow/gpu_events_passed");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  EXPECT_EQ(EventsPassedFile(), "");
}

}  // namespace
}  // namespace tensorbow
