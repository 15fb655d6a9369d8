// SPDX-License-Identifier: Apache-2.0
#include "cli/base/outcome.h"

#include <gtest/gtest.h>

#include <csignal>

namespace lockstep::cli {
namespace {

TEST(Outcome, HasADescription_AndTheStatusThatAShellGives) {
  EXPECT_EQ((Outcome{.exit_code = 3}.describe()), "died: exit status 3");
  EXPECT_EQ((Outcome{.exit_code = 0}.describe()), "ended with status 0");
  EXPECT_EQ((Outcome{.exit_code = 3}.status()), 3);
  EXPECT_EQ((Outcome{.signal = SIGKILL}.describe()), "died: signal 9 (SIGKILL)");
  EXPECT_EQ((Outcome{.signal = SIGSEGV}.status()), 139);
  EXPECT_EQ((Outcome{.lost = "host b does not answer"}.describe()), "died: host b does not answer");
  EXPECT_EQ((Outcome{.lost = "host b does not answer"}.status()), 1);
  EXPECT_FALSE((Outcome{.lost = "host b does not answer"}.success()));
  EXPECT_EQ(signal_name(60), "signal 60");
}

TEST(LikeliestCause, ASignalIsPreferredToAnExit_AndAnExitToSuccess) {
  EXPECT_EQ(likeliest_cause({{}, {.exit_code = 1}, {.signal = SIGABRT}, {.signal = SIGKILL}}), 3u);
  EXPECT_EQ(likeliest_cause({{}, {.signal = SIGABRT}, {.exit_code = 1}}), 1u);
  EXPECT_EQ(likeliest_cause({{.exit_code = 1}, {.lost = "host b does not answer"}}), 1u);
  EXPECT_EQ(likeliest_cause({{}, {}}), 0u);
}

TEST(ClosingReport, NamesTheCauseItsConsequencesAndTheEndedProcesses) {
  std::vector<Fate> fates(6);
  for (int i = 0; i < 6; ++i) fates[i] = {.pid = 100 + i, .outcome = Outcome{}};
  fates[1].outcome->signal = SIGKILL;
  fates[0].outcome->exit_code = fates[2].outcome->exit_code = 1;
  fates[3].outcome->signal = SIGABRT;
  fates[4].outcome->signal = fates[4].sent_signal = SIGTERM;
  EXPECT_EQ(closing_report("process 1 (host b, pid 101) died: signal 9 (SIGKILL)", {1}, fates),
            "the job failed: process 1 (host b, pid 101) died: signal 9 (SIGKILL); the kernel sends this too "
            "when memory is short (see dmesg)\n"
            "  as a consequence: processes 0, 2 died: exit status 1; process 3 died: signal 6 (SIGABRT)\n"
            "  ended by the launcher: process 4 by SIGTERM\n"
            "  without an error: process 5 finished");
}

TEST(ClosingReport, ManyProcesses_AreNamedInPartAndCounted) {
  std::vector<Fate> fates(12, Fate{.pid = 1, .outcome = Outcome{.exit_code = 1}});
  EXPECT_EQ(closing_report("it broke: died: exit status 1", {0}, fates),
            "the job failed: it broke: died: exit status 1\n  as a consequence: processes 1, 2, 3, 4, 5, 6, "
            "7, 8 and 3 more died: exit status 1");
}

}  // namespace
}  // namespace lockstep::cli
