// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cli/testing/tool.h"
#include "lockstep/coordination/proxy/host_proxy.h"
#include "lockstep/testing/process_logs.h"
#include "lockstep/testing/temporary_folder.h"

// `lockstep run` on so many pretended hosts that relays start agents: with a fan-out of 2, of the hosts h0 to
// h6 the launcher starts h0, over which h1 to h3 are reached, and h4, over which h5 and h6 are; h2 is behind
// h1.

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Processes;
using testing::ProcessResult;

constexpr int kHosts = 7;

class RunRelays : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& name) const { return folder_.path() / name; }

  // A script in the place of ssh; $host is the host. The pid of what it becomes, a relay or an agent, is in
  // the file pid-HOST.
  std::string rsh(const std::string& script = "") {
    return write_script(file("rsh"), "#!/bin/sh\nhost=$1; shift\n" + script + "\necho $$ > " +
                                         file("pid-").string() + "$host; exec sh -c \"$*\"\n");
  }

  pid_t pid_of(const std::string& host) const {
    return std::atoi(testing::read_file(file("pid-" + host)).c_str());
  }

  static std::string hosts(int count, int processes = 1) {
    std::string all;
    for (int i = 0; i < count; ++i) {
      if (i > 0) all += ',';
      all += "h" + std::to_string(i) + ":" + std::to_string(processes);
    }
    return all;
  }

  testing::ProcessesOptions run(const std::string& hosts, const std::string& rsh, Words more) {
    return tool(
        Words{"run", "--hosts", hosts, "--rsh", rsh, "--coordinator-address", "127.0.0.1", "--grace", "0.4"} +
            std::move(more),
        {{"LOCKSTEP_HOST_FAN_OUT", "2"}, {"LOCKSTEP_TEST_MARK", mark()}, {"LOCKSTEP_SOCKET_DIR", file("s")}});
  }

  ProcessResult end_of(const std::string& hosts, const std::string& rsh, Words more) {
    return testing::run_processes(run(hosts, rsh, std::move(more)))[0];
  }

  // Neither a process nor an agent, a relay or what they have left.
  void expect_nothing_left() const {
    for (const pid_t pid : processes_with("LOCKSTEP_TEST_MARK=" + mark())) expect_gone(pid);
  }

  static void wait_for_all(Processes& job, const std::string& line) {
    for (int i = 0; i < kHosts; ++i) {
      const std::string number = std::to_string(i);
      job.wait_for_line(0, "[" + number + "@h" + number + "] " + line);
    }
  }

  std::string mark() const { return folder_.path(); }

  testing::TemporaryFolder folder_;
};

TEST_F(RunRelays, EachHost_IsStartedOnce_AndNobodyStartsMoreThanTwo) {
  const auto result = end_of(hosts(15, 2), rsh("echo $PPID $host >> " + file("starts").string()),
                             shell("echo of $LOCKSTEP_NUM_PROCESSES"));
  EXPECT_EQ(result.exit_code, 0);
  std::set<std::string> lines, expected;
  for (const std::string& line : lines_of(result.log)) lines.insert(line);
  for (int i = 0; i < 30; ++i)
    expected.insert("[" + std::to_string(i) + "@h" + std::to_string(i / 2) + "] of 30");
  EXPECT_EQ(lines, expected);
  std::map<std::string, int> started, by;
  for (const std::string& line : lines_of(testing::read_file(file("starts")))) {
    ++by[line.substr(0, line.find(' '))];
    ++started[line.substr(line.find(' ') + 1)];
  }
  EXPECT_EQ(started.size(), 15u);
  EXPECT_EQ(by.size(), 8u);  // the launcher and 7 relays
  for (const auto& [host, times] : started) EXPECT_EQ(times, 1) << host;
  for (const auto& [pid, times] : by) EXPECT_LE(times, 2) << pid;
  expect_nothing_left();
}

TEST_F(RunRelays, TheLaunchersHost_AtAnyPositionInTheList_NeedsNoRsh) {
  const auto result =
      end_of("h0:1,h1:2,localhost:2,h3:1,h4:1,h5:1", rsh("[ $host != localhost ] || exit 255"),
             shell("echo of $LOCKSTEP_NUM_PROCESSES"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(lines_of(result.log), ::testing::UnorderedElementsAre(
                                        "[0@h0] of 8", "[1@h1] of 8", "[2@h1] of 8", "[3@localhost] of 8",
                                        "[4@localhost] of 8", "[5@h3] of 8", "[6@h4] of 8", "[7@h5] of 8"));
}

TEST_F(RunRelays, MuchOutput_ArrivesWholeAndInOrder) {
  const auto result = end_of(hosts(kHosts), rsh(), shell("seq 60000"));
  std::map<std::string, int> next;
  for (const std::string& line : lines_of(result.log)) {
    ASSERT_EQ(line.substr(7), std::to_string(++next[line.substr(0, 6)]));
  }
  EXPECT_EQ(next.size(), static_cast<std::size_t>(kHosts));
  for (const auto& [process, count] : next) EXPECT_EQ(count, 60000) << process;
}

TEST_F(RunRelays, NoSecret_IsOnACommandLine) {
  const auto result = end_of(hosts(kHosts), rsh("echo \"$0 $*\" >> " + file("commands").string()),
                             shell("echo secret $LOCKSTEP_JOB_SECRET"));
  const std::size_t secret = result.log.find("secret ") + 7;
  const std::string commands = testing::read_file(file("commands"));
  EXPECT_THAT(commands, AllOf(HasSubstr("host-agent"), HasSubstr("host-relay"),
                              Not(HasSubstr(result.log.substr(secret, 32)))));
}

TEST_F(RunRelays, TheFirstFailure_NamesItsHostAndGivesTheStatus) {
  const auto result =
      end_of(hosts(kHosts), rsh(), shell("[ $LOCKSTEP_PROCESS_ID != 2 ] || exit 7; exec sleep 1000"));
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(result.log,
              AllOf(HasSubstr("the job failed: process 2 (host h2, pid "), HasSubstr("exit status 7"),
                    HasSubstr("ended by the launcher: processes 0, 1, 3, 4, 5, 6 by SIGTERM")));
  expect_nothing_left();
}

TEST_F(RunRelays, Signals_ArePassedOn_AndAllEnd) {
  Processes job(run(hosts(kHosts), rsh(),
                    shell("trap 'echo got USR1' USR1; trap 'echo got TERM; exit 5' TERM; "
                          "echo ready; while :; do sleep 0.05; done")));
  wait_for_all(job, "ready");
  job.kill(0, SIGUSR1);
  wait_for_all(job, "got USR1");
  job.kill(0, SIGTERM);
  wait_for_all(job, "got TERM");
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.log, HasSubstr("stopped by SIGTERM"));
  expect_nothing_left();
}

TEST_F(RunRelays, ARelay_StaysAfterItsOwnHostsProcessesHaveEnded) {
  Processes job(run(hosts(kHosts), rsh(),
                    shell("echo pid $$; [ $LOCKSTEP_PROCESS_ID = 0 ] || while [ ! -e " + file("go").string() +
                          " ]; do sleep 0.02; done; echo end")));
  wait_for_all(job, "pid ");
  expect_gone(number_after(job.log(0), "[0@h0] pid "));
  std::ofstream(file("go")) << "";
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 0);
  for (int i = 0; i < kHosts; ++i) {
    const std::string number = std::to_string(i);
    EXPECT_THAT(result.log, HasSubstr("[" + number + "@h" + number + "] end\n"));
  }
}

TEST_F(RunRelays, AnInterrupt_EndsTheWaitForAHostBehindRelays) {
  Processes job(run(hosts(kHosts),
                    rsh("[ $host != h2 ] || { echo > " + file("called").string() + "; exec sleep 1000; }"),
                    shell("echo never")));
  while (!std::filesystem::exists(file("called"))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  job.kill(0, SIGINT);
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 128 + SIGINT);
  EXPECT_EQ(result.log, "lockstep: stopped by SIGINT\n");
  expect_nothing_left();
}

TEST_F(RunRelays, AnInterrupt_EndsAllProcesses) {
  Processes job(run(hosts(kHosts), rsh(), shell(kSaysItsPid)));
  wait_for_all(job, "pid ");
  job.kill(0, SIGINT);
  EXPECT_EQ(job.wait(0).exit_code, 128 + SIGINT);
  expect_nothing_left();
}

TEST_F(RunRelays, AnUnreachableHostBehindTwoRelays_IsNamed) {
  const auto result = end_of(
      hosts(kHosts), rsh("[ $host != h2 ] || { echo 'Permission denied (publickey).' >&2; exit 255; }"),
      shell("echo never"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.log,
            "lockstep: cannot start on host h2: rsh on host h1 died: exit status 255: Permission denied "
            "(publickey). (the launcher itself reaches up to LOCKSTEP_HOST_FAN_OUT hosts)\n");
  expect_nothing_left();
}

TEST_F(RunRelays, AnUnreachableRelay_IsNamedWithoutTheHostsBehindIt) {
  const auto result = end_of(hosts(kHosts), rsh("[ $host != h1 ] || exit 255"), shell("echo never"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.log,
            "lockstep: cannot start on host h1: rsh on host h0 died: exit status 255 (the "
            "launcher itself reaches up to LOCKSTEP_HOST_FAN_OUT hosts)\n");
  expect_nothing_left();
}

TEST_F(RunRelays, AHostThatDoesNotAnswer_IsNamedAndWaitedFor) {
  Processes job(run(hosts(kHosts),
                    rsh("while [ $host = h2 ] && [ ! -e " + file("go").string() + " ]; do sleep 0.02; done"),
                    Words{"--initialization-timeout", "3"} + shell("true")));
  job.wait_for_line(0, "; missing: h2\n");
  std::ofstream(file("go")) << "";
  EXPECT_EQ(job.wait(0).exit_code, 0);
}

TEST_F(RunRelays, AMissingProgram_IsReportedOnceWithAHost) {
  const auto result = end_of(hosts(kHosts), rsh(), {"--", "/no/such/program"});
  EXPECT_EQ(result.exit_code, 127);
  EXPECT_THAT(
      result.log,
      ContainsRegex("^lockstep: host h[0-6]: cannot run '/no/such/program': No such file or directory\n$"));
}

TEST_F(RunRelays, ALostRelay_LosesTheHostsBehindIt_AndIsTheCause) {
  Processes job(run(hosts(kHosts), rsh(), shell(kSaysItsPid)));
  wait_for_all(job, "pid ");
  kill(pid_of("h0"), SIGKILL);
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(
      result.log,
      AllOf(HasSubstr("lockstep: host h0: it is lost, and so are the hosts that were reached through it: h1, "
                      "h2, h3\n"),
            ContainsRegex("the job failed: process 0 \\(host h0, pid [0-9]+\\) died: the connection to host "
                          "h0 ended \\(rsh died: signal 9 \\(SIGKILL\\)\\)"),
            HasSubstr("processes 1, 2, 3 died: the connection through host h0 was lost")));
  expect_nothing_left();
}

TEST_F(RunRelays, ALostRelayBehindARelay_IsNamedAsTheCause) {
  Processes job(run(hosts(kHosts), rsh(), shell(kSaysItsPid)));
  wait_for_all(job, "pid ");
  kill(pid_of("h1"), SIGKILL);
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(
      result.log,
      AllOf(
          HasSubstr("lockstep: host h1: it is lost, and so are the hosts that were reached through it: h2\n"),
          ContainsRegex("the job failed: process 1 \\(host h1, pid [0-9]+\\) died: the connection to host "
                        "h1 ended \\(rsh on host h0 died: signal 9 \\(SIGKILL\\)\\)"),
          HasSubstr("process 2 died: the connection through host h1 was lost")));
  expect_nothing_left();
}

TEST_F(RunRelays, NothingOutlivesAKilledLauncher) {
  Processes job(run(hosts(kHosts), rsh(), shell("sleep 1000 & echo pid $$; exec sleep 1000")));
  wait_for_all(job, "pid ");
  job.kill(0, SIGKILL);
  job.wait(0);
  expect_nothing_left();
}

TEST_F(RunRelays, AfterAKilledLauncher_RelaysWhoseConnectionsEnd_LeaveNothing) {
  // As with ssh, what is killed with the launcher is not the relay or the agent itself.
  const std::string rsh = write_script(
      file("rsh"),
      "#!/bin/sh\nshift; exec 3<&0\nsetsid sh -c \"$*\" <&3 3<&- & exec 0<&- 1>&- 3<&-\nwait $!\n");
  Processes job(run(hosts(kHosts), rsh, shell("sleep 1000 & echo pid $$; exec sleep 1000")));
  wait_for_all(job, "pid ");
  job.kill(0, SIGKILL);
  job.wait(0);
  expect_nothing_left();
}

TEST_F(RunRelays, AHostBehindTwoRelaysThatFallsSilent_IsNamed) {
  Processes job(run(hosts(kHosts), rsh(), Words{"--heartbeat-timeout", "4"} + shell(kSaysItsPid)));
  wait_for_all(job, "pid ");
  kill(pid_of("h2"), SIGSTOP);
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.log,
              ContainsRegex("the job failed: process 2 \\(host h2, pid [0-9]+\\) died: host h2 has "
                            "not answered for 4 s"));
  expect_nothing_left();
}

TEST_F(RunRelays, HostsThatHearNothingFromTheLauncher_EndTheirProcesses) {
  Processes job(run(hosts(kHosts), rsh(), Words{"--heartbeat-timeout", "4"} + shell(kSaysItsPid)));
  wait_for_all(job, "pid ");
  job.kill(0, SIGSTOP);
  for (int i = 0; i < kHosts; ++i)
    expect_gone(number_after(job.log(0), "[" + std::to_string(i) + "@h" + std::to_string(i) + "] pid "));
  job.kill(0, SIGCONT);
  EXPECT_EQ(job.wait(0).exit_code, 1);
  expect_nothing_left();
}

TEST_F(RunRelays, AStoppedJob_IsNotTakenForASilentOne) {
  Processes job(run(hosts(kHosts), rsh(),
                    Words{"--heartbeat-timeout", "4"} + shell("echo pid $$; while :; do sleep 0.05; done")));
  wait_for_all(job, "pid ");
  job.kill(0, SIGTSTP);
  std::this_thread::sleep_for(std::chrono::seconds(6));  // longer than anyone may be silent
  for (int i = 0; i < kHosts; ++i) {
    const std::string number = std::to_string(i);
    EXPECT_TRUE(alive(number_after(job.log(0), "[" + number + "@h" + number + "] pid ")));
  }
  job.kill(0, SIGCONT);
  job.kill(0, SIGTERM);
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_THAT(result.log, Not(HasSubstr("answered")));
  expect_nothing_left();
}

TEST_F(RunRelays, ASlowReader_LosesNothing_AndNoHostTimesOut) {
  auto options = run(hosts(kHosts), rsh(), {"--heartbeat-timeout", "2", "--", "seq", "60000"});
  std::string command = LOCKSTEP_TOOL;
  for (const std::string& word : options.arguments) command += " " + word;
  options.program = "/bin/bash";
  options.arguments = {"-c", command +
                                 " | { for i in $(seq 40); do dd bs=4096 count=1 status=none; sleep 0.1; "
                                 "done; cat; }; echo status ${PIPESTATUS[0]}"};
  const auto result = testing::run_processes(options)[0];
  EXPECT_THAT(result.log, AllOf(HasSubstr("status 0\n"), Not(HasSubstr("lockstep:"))));
  std::map<std::string, int> lines;
  for (const std::string& line : lines_of(result.log)) {
    if (line.front() != '[') continue;
    ASSERT_EQ(line.substr(7), std::to_string(++lines[line.substr(0, 6)]));
  }
  for (const auto& [process, count] : lines) EXPECT_EQ(count, 60000) << process;
  EXPECT_EQ(lines.size(), static_cast<std::size_t>(kHosts));
}

TEST_F(RunRelays, AHostBehindRelays_IsWaitedForAtTheFirstStart) {
  const auto result = end_of(hosts(kHosts),
                             rsh("[ $host != h2 ] || [ -e " + file("called").string() + " ] || { echo > " +
                                 file("called").string() + "; exit 255; }"),
                             Words{"--wait-for-hosts", "60"} + shell("echo here"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, AllOf(HasSubstr("cannot start on host h2: rsh on host h1 died: exit status 255"),
                                HasSubstr("; waiting for it, at most 60 s\n"), HasSubstr("[2@h2] here\n")));
}

TEST_F(RunRelays, AfterTheLossOfARelay_OnlyItsHostIsLeftOut) {
  Processes job(run(hosts(kHosts + 1), rsh(),
                    Words{"-n", "7", "--max-restarts", "1"} +
                        shell("echo start $LOCKSTEP_ATTEMPT; [ $LOCKSTEP_ATTEMPT = 1 ] || exec sleep 1000")));
  wait_for_all(job, "start 0");
  kill(pid_of("h0"), SIGKILL);
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, HasSubstr("starting all again: restart 1 of 1; the processes go to "
                                    "h1:1,h2:1,h3:1,h4:1,h5:1,h6:1,h7:1\n"));
  for (int i = 0; i < kHosts; ++i)
    EXPECT_THAT(result.log,
                HasSubstr("[" + std::to_string(i) + "@h" + std::to_string(i + 1) + "] start 1\n"));
  expect_nothing_left();
}

LOCKSTEP_CHILD(stays_in_its_job) {
  auto client = join();
  client->barrier("all", std::chrono::minutes(10));
  testing::say("came by " + std::string(std::getenv(coordination::kProxyVariable)));
  while (!std::filesystem::exists(std::getenv("END_FILE")))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  client->shutdown();
}

TEST_F(RunRelays, StatusAndStacks_ShowAllHosts) {
  Processes job(run(
      hosts(kHosts), rsh(),
      Words{"-x", "END_FILE=" + file("end").string(), "--"} + testing::command_of_child("stays_in_its_job")));
  wait_for_all(job, "came by ");
  const testing::Variables sockets = {{"LOCKSTEP_SOCKET_DIR", file("s")}};
  const auto stacks = lockstep({"stacks", "--all"}, sockets);
  EXPECT_EQ(stacks.exit_code, 0) << stacks.log;
  EXPECT_THAT(stacks.log, AllOf(HasSubstr("7 processes: 0-6\n"), Not(HasSubstr("no answer"))));
  // The reports of all come within about a second.
  std::string table;
  const auto shows_all = [&] {
    table = lockstep({"status"}, sockets).log;
    for (int i = 0; i < kHosts; ++i)
      if (table.find("h" + std::to_string(i)) == std::string::npos) return false;
    return true;
  };
  const auto deadline = std::chrono::steady_clock::now() + testing::kAtOnce;
  while (!shows_all() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  for (int i = 0; i < kHosts; ++i) EXPECT_THAT(table, HasSubstr("h" + std::to_string(i)));
  std::ofstream(file("end")) << "";
  EXPECT_EQ(job.wait(0).exit_code, 0);
}

TEST_F(RunRelays, WithHostProxy_ProcessesOfAHostShareTheAgentsConnection) {
  std::ofstream(file("end")) << "";
  const auto result =
      end_of(hosts(kHosts, 2), rsh(),
             Words{"-x", "LOCKSTEP_HOST_PROXY=1", "-x", "END_FILE=" + file("end").string(), "--"} +
                 testing::command_of_child("stays_in_its_job"));
  EXPECT_EQ(result.exit_code, 0) << result.log;
  std::set<pid_t> ports;
  for (int i = 0; i < 2 * kHosts; ++i) {
    const std::string process = "[" + std::to_string(i) + "@h" + std::to_string(i / 2) + "]";
    ports.insert(number_after(result.log, process + " came by 127.0.0.1:"));
  }
  EXPECT_EQ(ports.size(), static_cast<std::size_t>(kHosts)) << result.log;
}

TEST_F(RunRelays, UnderSlurm_ARelayAsksSrunForFurtherNodes) {
  // In the place of srun: notes who asks for which node and for what, and runs what follows its options.
  write_script(file("srun"),
               "#!/bin/sh\nfor word; do case $word in --nodelist=*) node=${word#*=};; esac; done\n"
               "while [ \"${1#-}\" != \"$1\" ]; do shift; done\n"
               "echo $node $2 by $AT >> " +
                   file("words").string() + "\nexport AT=$node\nexec \"$@\"\n");
  const auto result = lockstep({"run", "--slurm", "--coordinator-address", "127.0.0.1", "--", "echo", "here"},
                               {{"PATH", folder_.path().string() + ":" + std::getenv("PATH")},
                                {"AT", "launcher"},
                                {"LOCKSTEP_HOST_FAN_OUT", "1"},
                                {"SLURM_JOB_ID", "7"},
                                {"SLURM_JOB_NODELIST", "node[1-3]"},
                                {"SLURM_NTASKS", "3"},
                                {"SLURM_TASKS_PER_NODE", "1(x3)"}});
  EXPECT_THAT(lines_of(result.log),
              ::testing::UnorderedElementsAre("[0@node1] here", "[1@node2] here", "[2@node3] here"));
  EXPECT_EQ(testing::read_file(file("words")),
            "node1 host-relay by launcher\nnode2 host-relay by node1\nnode3 host-agent by node2\n");
}

TEST_F(RunRelays, UnderARealSlurm_ARelayStartsFurtherNodes) {
  if (const std::string lacking = lacking_for_slurm(); !lacking.empty()) GTEST_SKIP() << lacking;
  const std::string script =
      "export LOCKSTEP_HOST_FAN_OUT=1; salloc -Q -N3 -n6 --ntasks-per-node=2 " LOCKSTEP_TOOL
      " run --slurm -- sh -c 'echo on $SLURMD_NODENAME; [ $LOCKSTEP_PROCESS_ID != 5 ] || exit 7'";
  const auto result = testing::run_processes(
      {.program = LOCKSTEP_RECIPES "/slurm-one-node.sh", .arguments = {"-N", "3", "sh", "-c", script}})[0];
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(result.log, AllOf(HasSubstr("[1@node1] on node1\n"), HasSubstr("[3@node2] on node2\n"),
                                HasSubstr("[4@node3] on node3\n"),
                                HasSubstr("the job failed: process 5 (host node3, pid ")));
}

TEST_F(RunRelays, AFanOutThatIsNoNumber_IsRefused) {
  const auto result = lockstep({"run", "-n", "1", "--", "true"}, {{"LOCKSTEP_HOST_FAN_OUT", "0"}});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.log, HasSubstr("LOCKSTEP_HOST_FAN_OUT='0'"));
}

}  // namespace
}  // namespace lockstep::cli
