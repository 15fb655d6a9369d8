// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/testing/tool.h"
#include "lockstep/testing/processes.h"

namespace lockstep::cli {
namespace {

// A control group of this machine's, with the time of one CPU.
TEST(RunWithAQuota, Processes_ComputeWithNoMoreThreadsThanItGives) {
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
  const auto result =
      lockstep::testing::run_processes({.program = "/bin/sh", .arguments = {"-c", script}})[0];
  if (result.exit_code == 77 || geteuid() != 0) GTEST_SKIP() << "no control group can be made here";
  EXPECT_THAT(result.log, ::testing::HasSubstr("[0] threads 1\n"));
  EXPECT_THAT(result.log, ::testing::HasSubstr("[1] of two 1\n"));
}

}  // namespace
}  // namespace lockstep::cli
