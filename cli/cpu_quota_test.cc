#include "cli/cpu_quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "cli/tool_test.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::cli {
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

TEST_F(CpuQuota, OfVersion2IsTheLowestOnTheWayUp) {
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

TEST_F(CpuQuota, OfVersion1IsInTheCpuControllersHierarchy) {
  write("proc/self/cgroup", "4:cpuset:/\n3:cpu,cpuacct:/docker/abc\n0::/\n");
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "400000\n");
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_THAT(cpu_quota(root()), Optional(4.0));
  write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cpu_quota(root()), std::nullopt);
}

TEST_F(CpuQuota, InAContainerThatDoesNotSeeItsPathTheMountCounts) {
  write("proc/self/cgroup", "3:cpu,cpuacct:/docker/abc\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_THAT(cpu_quota(root()), Optional(2.5));
}

TEST_F(CpuQuota, WithoutControlGroupsThereIsNone) { EXPECT_EQ(cpu_quota(root()), std::nullopt); }

// A control group of this machine's, with the time of one CPU.
TEST(RunWithAQuota, ProcessesComputeWithNoMoreThreadsThanItGives) {
  const std::string script = R"(
set -e
v1=/sys/fs/cgroup/cpu; v2=/sys/fs/cgroup
if [ -e $v1/cpu.cfs_quota_us ]; then group=$v1/lockstep-$$; else group=$v2/lockstep-$$; fi
mkdir $group || exit 77
trap 'echo $$ > ${group%/*}/cgroup.procs; rmdir $group' EXIT
if [ -e $v1/cpu.cfs_quota_us ]; then echo 100000 > $group/cpu.cfs_quota_us; else echo "100000 100000" > $group/cpu.max; fi || exit 77
echo $$ > $group/cgroup.procs || exit 77
)" LOCKSTEP_TOOL R"( run -n 1 -- sh -c 'echo threads $NPROC'
)" LOCKSTEP_TOOL R"( run -n 2 -- sh -c 'echo of two $NPROC')";
  const auto result = testing::run_processes({.program = "/bin/sh", .arguments = {"-c", script}})[0];
  if (result.exit_code == 77 || geteuid() != 0) GTEST_SKIP() << "no control group can be made here";
  EXPECT_THAT(result.log, ::testing::HasSubstr("[0] threads 1\n"));
  EXPECT_THAT(result.log, ::testing::HasSubstr("[1] of two 1\n"));
}

}  // namespace
}  // namespace lockstep::cli
