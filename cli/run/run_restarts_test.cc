// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "cli/testing/tool.h"
#include "lockstep/coordination/client/client.h"
#include "lockstep/testing/temporary_folder.h"

// Jobs of days: hosts that are lost and come back, restarts that wait, and what is said meanwhile.

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Processes;
using testing::ProcessResult;

class RunRestarts : public ::testing::Test {
 protected:
  // A script in the place of ssh that counts the calls for each host, $call of $host.
  Words run(const std::string& hosts, const std::string& script, const Words& more) {
    const std::string file =
        write_script(folder_.path() / "rsh", "#!/bin/sh\nhost=$1; shift; cd " + folder_.path().string() +
                                                 "\necho >> calls-$host; call=$(wc -l < calls-$host)\n" +
                                                 script + "\necho $$ > pid-$host; exec sh -c \"$*\"\n");
    return Words{"run",       "--hosts", hosts, "--rsh", file, "--coordinator-address",
                 "127.0.0.1", "--grace", "0.2"} +
           more;
  }

  // Process 1 takes its host away at the first start.
  Words loses_its_host_once() {
    return shell("case $LOCKSTEP_ATTEMPT$LOCKSTEP_PROCESS_ID in 00) exec sleep 1000;; 01) kill -9 $(cat " +
                 (folder_.path() / "pid-b").string() +
                 "); exec sleep 1000;; esac; echo start $LOCKSTEP_ATTEMPT");
  }

  testing::TemporaryFolder folder_;
};

TEST_F(RunRestarts, ProcessesOfALostHost_GoToAHostWithPlacesLeft) {
  const auto result =
      lockstep(run("a:1,b:1,c:1", "[ $host$call != b2 ] || exit 255", {"-n", "2", "--max-restarts", "1"}) +
               loses_its_host_once());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(
      result.log,
      AllOf(ContainsRegex("process 1 \\(host b(, pid [0-9]+)?\\) died: the connection to host b ended.*; "
                          "starting all again: restart 1 of 1; the processes go to a:1,c:1\n"),
            HasSubstr("[0@a] start 1\n"), HasSubstr("[1@c] start 1\n")));
}

TEST_F(RunRestarts, AHostThatDoesNotAnswer_IsWaitedForAtTheStartAndAtARestart) {
  const auto result =
      lockstep(run("a:1,b:1", "case $host$call in b1|b3) echo 'No route to host' >&2; exit 255;; esac",
                   {"--max-restarts", "1", "--wait-for-hosts", "60"}) +
               loses_its_host_once());
  EXPECT_EQ(result.exit_code, 0);
  const std::string waits =
      "cannot start on host b: rsh died: exit status 255: No route to host; waiting for it, at most 60 s\n";
  const std::size_t first = result.log.find(waits), restart = result.log.find("restart 1 of 1");
  ASSERT_NE(first, std::string::npos);
  ASSERT_NE(restart, std::string::npos);
  EXPECT_LT(first, restart);
  EXPECT_NE(result.log.find(waits, restart), std::string::npos);
  EXPECT_THAT(result.log, HasSubstr("[1@b] start 1\n"));
}

TEST_F(RunRestarts, WithoutWaiting_EachFailedStartOfAHostCountsAsARestart) {
  const auto result = lockstep(run("a:1,b:1", "[ $host$call != b2 ] || exit 255", {"--max-restarts", "2"}) +
                               loses_its_host_once());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, AllOf(HasSubstr("cannot start on host b: rsh died: exit status 255; starting all "
                                          "again in 1 s: restart 2 of 2\n"),
                                HasSubstr("[1@b] start 2\n")));
}

TEST_F(RunRestarts, AHostThatStaysAway_EndsTheJobWhenNoRestartIsLeft) {
  const auto result = lockstep(run("a:1,b:1", "[ $host$call != b2 ] || exit 255", {"--max-restarts", "1"}) +
                               loses_its_host_once());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.log, HasSubstr("lockstep: cannot start on host b: rsh died: exit status 255\n"
                                    "  no restart is left: this was restart 1 of 1\n"));
}

TEST_F(RunRestarts, ALimitWithinATime_EndsTheJobWhenReached) {
  const auto result =
      lockstep(Words{"run", "-n", "1", "--max-restarts", "2/1h", "--restart-delay", "0"} + shell("exit 3"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.log,
              AllOf(HasSubstr("starting all again: restart 2 (2 of 2 within 1h)\n"),
                    ::testing::EndsWith("no restart is left: this was restart 2 (2 of 2 within 1h)\n")));
}

// A program that is being replaced, a file system that is away for a moment.
TEST_F(RunRestarts, ATemporaryStartFailure_DoesNotCountAsARestart) {
  const std::vector<std::pair<std::string, std::string>> away_and_back = {
      {"mv program away", "mv away program"},
      {"chmod -x program", "chmod +x program"},
      {"echo '#!/no/shell' > other; chmod +x other; mv program away; mv other program", "mv away program"},
      {"mv logs away; touch logs", "rm logs; mv away logs"}};
  for (const auto& [away, back] : away_and_back) {
    Processes job(
        {.program = "/bin/bash",
         .arguments = {"-c",
                       "printf '#!/bin/sh\necho start $LOCKSTEP_ATTEMPT; [ $LOCKSTEP_ATTEMPT = 0 ] || "
                       "exit 0; while [ ! -e fail ]; do sleep 0.02; done; exit 3\n' > program; "
                       "chmod +x program; exec " LOCKSTEP_TOOL
                       " run -n 2 --max-restarts 1 --log-dir logs -- ./program"}});
    for (const char* process : {"[0] ", "[1] "}) job.wait_for_line(0, std::string(process) + "start 0");
    const std::string here = "cd " + job.folder(0).string() + "; ";
    ASSERT_EQ(std::system((here + away + "; touch fail").c_str()), 0);
    job.wait_for_line(0, "; trying again for at most 300 s (this does not count as a restart)\n");
    ASSERT_EQ(std::system((here + back).c_str()), 0);
    const ProcessResult result = job.wait(0);
    EXPECT_EQ(result.exit_code, 0) << away;
    EXPECT_THAT(result.log, AllOf(HasSubstr("restart 1 of 1\n"), HasSubstr("[1] start 1\n")));
  }
}

TEST_F(RunRestarts, AProgramThatHasVanished_EndsTheJobAfterTheInitializationTimeout) {
  const std::string program =
      write_script(folder_.path() / "program", "#!/bin/sh\nmv " + (folder_.path() / "program").string() +
                                                   " " + (folder_.path() / "away").string() + "; exit 3\n");
  const auto result =
      lockstep({"run", "-n", "1", "--max-restarts", "5", "--initialization-timeout", "1", "--", program});
  EXPECT_EQ(result.exit_code, 127);
  EXPECT_THAT(result.log, AllOf(HasSubstr("No such file or directory; trying again for at most 1 s"),
                                ::testing::EndsWith("died: exit status 3; restart 1 did not begin\n")));
}

TEST_F(RunRestarts, AStopSignal_EndsTheWaitForARestart) {
  Processes job(tool(Words{"run", "-n", "1", "--max-restarts", "9"} + shell("exit 3")));
  job.wait_for_line(0, "starting all again in 1 s: restart 2 of 9\n");
  job.kill(0, SIGTERM);
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_THAT(result.log, ::testing::EndsWith("lockstep: stopped by SIGTERM\n"));
}

TEST_F(RunRestarts, ATimeout_EndsTheJobAndSaysSo) {
  const auto result = lockstep(
      Words{"run", "-n", "2", "--timeout", "1", "--grace", "0.2", "--max-restarts", "3"} +
      shell("[ $LOCKSTEP_PROCESS_ID = 0 ] || trap '' TERM; echo pid $$; while :; do sleep 0.05; done"));
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_THAT(result.log, AllOf(HasSubstr("lockstep: the job failed: it took longer than --timeout 1 s\n"),
                                HasSubstr("process 0 by SIGTERM"), HasSubstr("process 1 by SIGKILL"),
                                Not(HasSubstr("restart")), Not(HasSubstr("telling"))));
  for (const char* what : {"[0] pid ", "[1] pid "}) expect_gone(number_after(result.log, what));
}

TEST_F(RunRestarts, ATimeout_EndsAProcessThatTakesTooLongAfterAStopSignal) {
  Processes job(tool(Words{"run", "-n", "1", "--timeout", "1", "--grace", "0.1"} +
                     shell("trap 'echo got TERM' TERM; echo ready; while :; do sleep 0.02; done")));
  job.wait_for_line(0, "ready");
  job.kill(0, SIGTERM);
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_THAT(result.log, HasSubstr("the job failed: it took longer than --timeout 1 s\n"));
}

TEST_F(RunRestarts, ATimeout_EndsTheWaitForHostsAndForARestart) {
  const auto hosts =
      lockstep(run("a:1,b:1", "[ $host = a ] || exec sleep 1000", {"--timeout", "1"}) + shell("true"));
  EXPECT_EQ(hosts.exit_code, 124);
  EXPECT_EQ(hosts.log,
            "lockstep: the job failed: it took longer than --timeout 1 s, while it waited for hosts: b\n");
  const auto restart =
      lockstep(Words{"run", "-n", "1", "--timeout", "2", "--max-restarts", "99"} + shell("exit 3"));
  EXPECT_EQ(restart.exit_code, 124);
  EXPECT_THAT(restart.log,
              ::testing::EndsWith("lockstep: the job failed: it took longer than --timeout 2 s\n"));
}

LOCKSTEP_CHILD(process_one_comes_late) {
  const bool late = std::string(std::getenv("LOCKSTEP_PROCESS_ID")) == "1";
  while (late && !std::filesystem::exists("go")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  auto client = join();
  client->shutdown();
}

TEST_F(RunRestarts, AProcessMissingAtInitialize_IsNamed) {
  Processes job(tool(Words{"run", "-n", "3", "--initialization-timeout", "6", "--"} +
                     testing::command_of_child("process_one_comes_late")));
  job.wait_for_line(0, "\n");
  std::ofstream(job.folder(0) / "go") << "";
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log,
              ContainsRegex("^lockstep: waiting for processes: 2 of 3 have called initialize\\(\\) "
                            "after 2 s; missing: process 1 on host [^ ]+\n"));
}

TEST_F(RunRestarts, AProgramThatDoesNotCallInitialize_IsNotWaitedFor) {
  EXPECT_EQ(lockstep({"run", "-n", "2", "--initialization-timeout", "3", "--", "sleep", "1.5"}).log, "");
}

TEST_F(RunRestarts, HostsThatDoNotAnswer_AreNamedWhileTheyAreWaitedFor) {
  Processes job(tool(run("a:1,b:1", "while [ $host = b ] && [ ! -e go ]; do sleep 0.02; done",
                         {"--initialization-timeout", "3"}) +
                     shell("true")));
  job.wait_for_line(0, "lockstep: waiting for hosts: 1 of 2 have answered after 1 s; missing: b\n");
  std::ofstream(folder_.path() / "go") << "";
  EXPECT_EQ(job.wait(0).exit_code, 0);
}

}  // namespace
}  // namespace lockstep::cli
