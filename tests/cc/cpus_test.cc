#include "cc/support/cpus.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace tensorbow {
namespace {

// A file system with control groups.
class CpusTest : public testing::Test {
 protected:
  void SetUp() override {
    // A folder of this test's own: tests run side by side.
    root_ = testing::TempDir() + "cpus_test." +
            testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  std::string root_;
};

TEST_F(CpusTest, NoControlGroupsAreNoLimit) {
  EXPECT_FALSE(CpuQuota(root_).has_value());
  Write("/proc/self/cgroup", "nonsense\n0:\n1::relative\n");
  EXPECT_FALSE(CpuQuota(root_).has_value());
}

TEST_F(CpusTest, AContainerOfVersion2) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_FALSE(CpuQuota(root_).has_value());
  Write("/sys/fs/cgroup/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(*CpuQuota(root_), 1.5);
}

TEST_F(CpusTest, TheLeastOfAllGroupsThatOneLiesIn) {
  Write("/proc/self/cgroup", "0::/slice/service\n");
  Write("/sys/fs/cgroup/slice/cpu.max", "200000 100000\n");
  Write("/sys/fs/cgroup/slice/service/cpu.max", "800000 100000\n");
  EXPECT_DOUBLE_EQ(*CpuQuota(root_), 2);
  Write("/sys/fs/cgroup/slice/service/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(*CpuQuota(root_), 0.5);
}

TEST_F(CpusTest, Version1WithThePathOfTheHost) {
  Write("/proc/self/cgroup", "5:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n0::/\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(*CpuQuota(root_), 3);
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_FALSE(CpuQuota(root_).has_value());
}

TEST_F(CpusTest, APinnedThreadMayUseThoseCpusOnly) {
  const std::vector<int> all = AllowedCpus();
  ASSERT_FALSE(all.empty());
  std::vector<int> pinned;
  std::thread([&] {
    PinThisThread({all.back()});
    pinned = AllowedCpus();
  }).join();
  EXPECT_EQ(pinned, std::vector<int>{all.back()});
  EXPECT_EQ(AllowedCpus(), all);
  EXPECT_GE(NumCores(), 1);
  EXPECT_LE(NumCores(), static_cast<int>(all.size()));
}

}  // namespace
}  // namespace tensorbow
