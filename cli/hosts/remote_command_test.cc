// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/remote_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

TEST(SplitWords, KeepsQuotedWordsTogether) {
  EXPECT_THAT(split_words(" ssh  -i 'my key' -o\"Port 22\" ''"),
              ElementsAre("ssh", "-i", "my key", "-oPort 22", ""));
  EXPECT_THROW(split_words("ssh 'x"), Error);
  EXPECT_THROW(split_words("  "), Error);
}

TEST(ShellQuoted, EscapesQuotes) { EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'"); }

TEST(RshCommand, SshRunsInBatchMode_AndOtherCommandsGetNoOptions) {
  const auto ssh = rsh_command({"/usr/bin/ssh", "-p", "22"}, "b", "/bin/lock step", "host-agent");
  EXPECT_THAT(ssh,
              AllOf(Contains("BatchMode=yes"), Contains("b"), Contains("exec '/bin/lock step' host-agent")));
  // Whatever a host is called, it is no option.
  EXPECT_EQ(ssh[ssh.size() - 3], "--");
  EXPECT_THAT(rsh_command({"my-rsh"}, "b", "/bin/lockstep", "host-relay"),
              ElementsAre("my-rsh", "b", "exec '/bin/lockstep' host-relay"));
}

TEST(SrunCommand, StartsOneAgentOnTheNode) {
  EXPECT_THAT(srun_command("node1", "/bin/lockstep", "host-agent"),
              AllOf(Contains("--nodelist=node1"), Contains("--ntasks=1"), Contains("host-agent")));
}

}  // namespace
}  // namespace lockstep::cli
