// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/cpu_quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "lockstep/testing/temporary_folder.h"

namespace lockstep {
namespace {

using ::testing::Optional;

class CpuQuota : public ::testing::Test {
 protected:
  void write(const std::filesystem::path& file, const std::string& text) {
    std::filesystem::create_directories((root() / file).parent_path());
    std::ofstream(root() / file) << text;
  }
  std::filesystem::path root() const { return folder_.path(); }
  testing::TemporaryFolder folder_;
};

TEST_F(CpuQuota, CgroupVersion2_TakesTheLowestQuotaOfTheAncestors) {
  write("proc/self/cgroup", "0::/system/job/step\n");
  write("sys/fs/cgroup/system/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/system/job/cpu.max", "800000 100000\n");
  write("sys/fs/cgroup/system/job/step/cpu.max", "max 100000\n");
  EXPECT_THAT(cpu_quota(root()), Optional(1.5));
  write("sys/fs/cgroup/system/cpu.max", "max 100000\n");
  EXPECT_THAT(cpu_quota(root()), Optional(8.0));
  write("sys/fs/cgroup/system/job/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_quota(root()), std::nullopt);
}

TEST_F(CpuQuota, CgroupVersion1_ReadsTheCpuControllersHierarchy) {
  write("proc/self/cgroup", "4:cpuset:/\n3:cpu,cpuacct:/docker/abc\n0::/\n");
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "400000\n");
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_THAT(cpu_quota(root()), Optional(4.0));
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cpu_quota(root()), std::nullopt);
}

TEST_F(CpuQuota, InAContainerWithoutItsPath_TheQuotaOfTheMountIsRead) {
  write("proc/self/cgroup", "3:cpu,cpuacct:/docker/abc\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_THAT(cpu_quota(root()), Optional(2.5));
}

TEST_F(CpuQuota, WithoutControlGroups_IsNone) { EXPECT_EQ(cpu_quota(root()), std::nullopt); }

}  // namespace
}  // namespace lockstep
