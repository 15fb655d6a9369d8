// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/testing/tool.h"
#include "lockstep/coordination/proxy/host_proxy.h"
#include "lockstep/testing/process_logs.h"
#include "lockstep/testing/temporary_folder.h"

// `lockstep run` on several hosts: pretended ones, where a script takes the place of ssh, and ones with
// networks of their own behind a real sshd, and the nodes of a real Slurm.

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Processes;
using testing::ProcessResult;
using ::testing::UnorderedElementsAre;

class RunHosts : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& name) const { return folder_.path() / name; }

  // A script in the place of ssh; $host is the host, and $* the command.
  std::string rsh(const std::string& script = "exec sh -c \"$*\"") {
    return write_script(file("rsh"), "#!/bin/sh\nhost=$1; shift\n" + script + "\n");
  }

  Words run(const std::string& hosts, const std::string& rsh, Words more = {}) {
    return Words{"run", "--hosts", hosts, "--rsh", rsh, "--coordinator-address", "127.0.0.1"} + more;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(RunHosts, EachLine_BeginsWithItsProcessAndHost) {
  const auto result = lockstep(run("a:2,user@b:1", rsh()) + shell("echo out; echo err >&2; printf rest"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(lines_of(result.log),
              UnorderedElementsAre("[0@a] out", "[0@a] err", "[0@a] rest", "[1@a] out", "[1@a] err",
                                   "[1@a] rest", "[2@b] out", "[2@b] err", "[2@b] rest"));
}

constexpr char kHello[] = "printf 'lockstep-agent\\t5\\tnode\\t127.0.0.1\\n'; ";

TEST_F(RunHosts, AnAgentWithAnEndlessLine_IsLost) {
  const std::string endless = "exec head -c 200000000 /dev/zero";
  for (const auto& [script, bytes] : std::vector<std::pair<std::string, std::string>>{
           {endless, "65536"}, {kHello + endless, std::to_string((64 << 20) + 64)}}) {
    const auto result = lockstep(run("a:1", rsh(script)) + shell("true"));
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.log, HasSubstr("host a sent a line of more than " + bytes + " bytes"));
    EXPECT_LT(result.ended_after, std::chrono::seconds(30));
  }
}

TEST_F(RunHosts, EndlessOutputOfALoginScript_IsCut_AndTheJobRuns) {
  const auto result =
      lockstep(run("a:1", rsh("head -c 100000000 /dev/zero | tr '\\0' x >&2; exec sh -c \"$*\"")) +
               shell("echo here"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, HasSubstr("[0] here"));
  EXPECT_LT(result.log.size(), 10'000u);
}

TEST_F(RunHosts, AnImpossibleExitStatus_CountsAsALostHost) {
  for (const std::string words : {"0\\t99999", "0\\t-1", "256\\t0", "-1\\t0"}) {
    const auto result =
        lockstep(run("a:1", rsh(kHello +
                                std::string("while read -r line; do [ \"$line\" != start ] || printf "
                                            "'started\\t0\\t4711\\nended\\t0\\t") +
                                words + "\\ndone\\n'; done")) +
                 shell("true"));
    EXPECT_EQ(result.exit_code, 1) << result.log;
    EXPECT_THAT(result.log, HasSubstr("host a says that it ended with exit status"));
  }
}

TEST_F(RunHosts, AHostfile_NamesTheHosts) {
  std::ofstream(file("hosts")) << "# two\na slots=1\nb:2\n";
  const auto result = lockstep({"run", "-n", "2", "--hostfile", file("hosts"), "--rsh", rsh(),
                                "--coordinator-address", "127.0.0.1", "--", "echo", "here"});
  EXPECT_THAT(lines_of(result.log), UnorderedElementsAre("[0@a] here", "[1@b] here"));
}

TEST_F(RunHosts, MuchOutput_ArrivesWholeAndInOrder) {
  const auto result = lockstep(run("a:1,b:1", rsh()) + shell("seq 200000"));
  std::map<std::string, int> next;
  for (const std::string& line : lines_of(result.log)) {
    ASSERT_EQ(line.substr(6), std::to_string(++next[line.substr(0, 5)]));
  }
  EXPECT_EQ(next["[0@a]"], 200000);
  EXPECT_EQ(next["[1@b]"], 200000);
}

TEST_F(RunHosts, FolderAndVariables_ReachTheHosts_WithNoSecretOnACommandLine) {
  const std::string record =
      "echo \"$0 $*\" >> " + file("commands").string() + "; env -i PATH=$PATH sh -c \"$*\"";
  const auto result = lockstep(run("a:1,b:1", rsh(record), {"-x", "GIVEN=a b", "-x", "TAKEN"}) +
                                   shell("echo $GIVEN,$TAKEN,$LEFT,$LOCKSTEP_MINE,$(pwd); echo secret "
                                         "$LOCKSTEP_JOB_SECRET"),
                               {{"TAKEN", "taken"}, {"LEFT", "left"}, {"LOCKSTEP_MINE", "mine"}});
  EXPECT_THAT(result.log, ContainsRegex("\\[1@b\\] a b,taken,,mine,/.*/"));
  const std::size_t secret = result.log.find("secret ") + 7;
  const std::string commands = testing::read_file(file("commands"));
  EXPECT_THAT(commands, HasSubstr("host-agent"));
  EXPECT_THAT(commands, Not(HasSubstr(result.log.substr(secret, 32))));
}

TEST_F(RunHosts, ASingleOtherHost_IsTreatedAsAnotherHost) {
  const auto result =
      lockstep(run("b:2", rsh("env -i PATH=$PATH sh -c \"$*\"")) + shell("echo $LOCKSTEP_MINE,$JAX_MINE"),
               {{"LOCKSTEP_MINE", "mine"}, {"JAX_MINE", "jax"}});
  EXPECT_THAT(lines_of(result.log), UnorderedElementsAre("[0] mine,jax", "[1] mine,jax"));
  const auto wildcard = lockstep(
      {"run", "--hosts", "b:2", "--rsh", rsh(), "--coordinator-address", "0.0.0.0", "--", "echo", "never"});
  EXPECT_EQ(wildcard.exit_code, 1);
  EXPECT_THAT(wildcard.log, HasSubstr("0.0.0.0 is not an address that other hosts can use"));
}

TEST_F(RunHosts, OtherOutputOnAnAgentsConnection_IsShown) {
  const std::string noise = "printf 'a word\\there\\nstarted\\tx\\ty\\nout\\t7\\ttext\\n'";
  const auto result = lockstep(run("a:1,b:1", rsh("sh -c \"$*\" | { IFS= read -r hello; echo \"$hello\"; " +
                                                  noise + "; exec cat; }")) +
                               shell("echo here"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, AllOf(HasSubstr("[1@b] here\n"), HasSubstr("lockstep: host b: a word\\there\n"),
                                HasSubstr("lockstep: host b: started\\tx\\ty\n")));
}

TEST_F(RunHosts, OutputOfALoginScript_IsIgnored) {
  const auto result = lockstep(run("a:1,b:1", rsh("echo Welcome; echo 'to you' >&2; exec sh -c \"$*\"")) +
                               shell("echo here"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(lines_of(result.log), UnorderedElementsAre("[0@a] here", "[1@b] here"));
}

TEST_F(RunHosts, TheFirstFailure_NamesItsHostAndGivesTheStatus) {
  const auto result = lockstep(run("a:1,b:2", rsh(), {"--grace", "0.4"}) +
                               shell("if [ $LOCKSTEP_PROCESS_ID = 1 ]; then exit 7; fi; exec sleep 1000"));
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(result.log,
              AllOf(HasSubstr("the job failed: process 1 (host b, pid "), HasSubstr("exit status 7"),
                    HasSubstr("ended by the launcher: processes 0, 2 by SIGTERM")));
}

TEST_F(RunHosts, AnUnreachableHost_IsReportedInOneLineWithTheReason) {
  const auto result = lockstep(run("a:1,b:1", rsh("[ $host = a ] || { echo 'Permission denied (publickey).' "
                                                  ">&2; exit 255; }; exec sh -c \"$*\"")) +
                               shell("echo never"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.log,
            "lockstep: cannot start on host b: rsh died: exit status 255: Permission denied (publickey).\n");
}

TEST_F(RunHosts, AHostWithoutTheToolOrTheProgram_IsNamed) {
  auto result = lockstep(run("a:1,b:1", rsh(), {"--remote-tool", "/no/such/lockstep"}) + shell("true"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.log, AllOf(HasSubstr("cannot start on host "), HasSubstr("/no/such/lockstep")));
  result = lockstep(run("a:1,b:1", rsh()) + Words{"--", "/no/such/program"});
  EXPECT_EQ(result.exit_code, 127);
  EXPECT_THAT(
      result.log,
      ContainsRegex("^lockstep: host [ab]: cannot run '/no/such/program': No such file or directory\n$"));
  EXPECT_THAT(lockstep(run("a:1,b:1", "/no/such/rsh") + shell("true")).log,
              HasSubstr("'/no/such/rsh' cannot be run"));
}

TEST_F(RunHosts, AHostWithTooFewDescriptors_SaysHowManyAreNeeded) {
  const auto result =
      lockstep(run("a:1,b:40", rsh("[ $host = a ] || ulimit -n 80; exec sh -c \"$*\"")) + shell("true"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(
      result.log,
      HasSubstr("host b: cannot start 40 processes: that takes at least 144 descriptors, and the hard "
                "limit is 80; raise it (ulimit -Hn)\n"));
}

TEST_F(RunHosts, Signals_ArePassedOn) {
  Processes job(
      tool(run("a:1,b:1", rsh()) + shell("trap 'echo got USR1' USR1; trap 'echo got TERM; exit 5' TERM; "
                                         "echo ready; while :; do sleep 0.05; done")));
  for (const char* process : {"[0@a]", "[1@b]"}) job.wait_for_line(0, std::string(process) + " ready");
  job.kill(0, SIGUSR1);
  for (const char* process : {"[0@a]", "[1@b]"}) job.wait_for_line(0, std::string(process) + " got USR1");
  job.kill(0, SIGTERM);
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.log, HasSubstr("stopped by SIGTERM"));
}

TEST_F(RunHosts, NoProcessOutlivesAKilledLauncher) {
  Processes job(
      tool(run("a:1,b:1", rsh()) + shell("sleep 1000 & echo helper $!; echo pid $$; exec sleep 1000")));
  for (const char* process : {"[0@a]", "[1@b]"}) job.wait_for_line(0, std::string(process) + " pid ");
  job.kill(0, SIGKILL);
  job.wait(0);
  for (const char* what : {"[0@a] pid ", "[1@b] pid ", "[0@a] helper ", "[1@b] helper "}) {
    expect_gone(number_after(job.log(0), what));
  }
}

TEST_F(RunHosts, AHostThatFallsSilent_IsNamed_AndItsProcessesEnd) {
  const std::string agent = "echo $$ > " + file("pid-").string() + "$host; exec sh -c \"$*\"";
  Processes job(
      tool(run("a:1,b:1", rsh(agent), {"--heartbeat-timeout", "4", "--grace", "0.4"}) + shell(kSaysItsPid)));
  for (const char* process : {"[0@a]", "[1@b]"}) job.wait_for_line(0, std::string(process) + " pid ");
  kill(std::atoi(testing::read_file(file("pid-b")).c_str()), SIGSTOP);
  const ProcessResult result = job.wait(0);
  EXPECT_THAT(result.log,
              ContainsRegex("the job failed: process 1 \\(host b, pid [0-9]+\\) died: host b has not "
                            "answered for 4 s"));
  EXPECT_EQ(result.exit_code, 1);
  for (const char* what : {"[0@a] pid ", "[1@b] pid "}) expect_gone(number_after(result.log, what));
}

TEST_F(RunHosts, AnAgentThatHearsNothing_EndsItsProcesses) {
  Processes job(tool(run("a:1,b:1", rsh(), {"--heartbeat-timeout", "4"}) + shell(kSaysItsPid)));
  for (const char* process : {"[0@a]", "[1@b]"}) job.wait_for_line(0, std::string(process) + " pid ");
  job.kill(0, SIGSTOP);
  for (const char* what : {"[0@a] pid ", "[1@b] pid "}) expect_gone(number_after(job.log(0), what));
  job.kill(0, SIGCONT);
  EXPECT_EQ(job.wait(0).exit_code, 1);
}

TEST_F(RunHosts, AStoppedJob_IsNotTakenForASilentOne) {
  Processes job(tool(run("a:1,b:1", rsh(), {"--heartbeat-timeout", "4"}) +
                     shell("echo pid $$; while :; do sleep 0.05; echo on; done")));
  for (const char* process : {"[0@a]", "[1@b]"}) job.wait_for_line(0, std::string(process) + " on");
  job.kill(0, SIGTSTP);
  std::this_thread::sleep_for(std::chrono::seconds(6));  // longer than either side may be silent
  for (const char* what : {"[0@a] pid ", "[1@b] pid "}) EXPECT_TRUE(alive(number_after(job.log(0), what)));
  job.kill(0, SIGCONT);
  job.kill(0, SIGTERM);
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_THAT(result.log, Not(HasSubstr("answered")));
}

TEST_F(RunHosts, AnInterrupt_EndsTheWaitForAHost) {
  Processes job(
      tool(run("a:1,b:1", rsh("echo $$ > " + file("pid").string() + "; exec sleep 1000")) + shell("true")));
  while (std::atoi(testing::read_file(file("pid")).c_str()) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  job.kill(0, SIGINT);
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 128 + SIGINT);
  EXPECT_EQ(result.log, "lockstep: stopped by SIGINT\n");
  expect_gone(std::atoi(testing::read_file(file("pid")).c_str()));
}

TEST_F(RunHosts, AConnectionThatEnds_IsTheNamedCause) {
  const std::string agent = "echo $$ > " + file("pid-").string() + "$host; exec sh -c \"$*\"";
  Processes job(tool(run("a:1,b:1", rsh(agent), {"--grace", "0.4"}) + shell(kSaysItsPid)));
  for (const char* process : {"[0@a]", "[1@b]"}) job.wait_for_line(0, std::string(process) + " pid ");
  kill(std::atoi(testing::read_file(file("pid-b")).c_str()), SIGKILL);
  const ProcessResult result = job.wait(0);
  EXPECT_THAT(result.log, HasSubstr("died: the connection to host b ended (rsh died: signal 9 (SIGKILL))"));
  expect_gone(number_after(result.log, "[1@b] pid "));
}

TEST_F(RunHosts, AFailedJob_IsStartedAgain) {
  const auto result = lockstep(run("a:1,b:1", rsh(), {"--max-restarts", "2", "--grace", "0.4"}) +
                               shell("echo attempt $LOCKSTEP_ATTEMPT; [ $LOCKSTEP_ATTEMPT = 1 ]"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log,
              AllOf(HasSubstr("[1@b] attempt 0"), HasSubstr("[1@b] attempt 1"), Not(HasSubstr("attempt 2"))));
}

TEST_F(RunHosts, WithoutAnAddressOfItsOwn_TheErrorNamesTheOptionToGive) {
  const auto result =
      lockstep({"run", "--hosts", "no-such-host.invalid:1,another.invalid:1", "--rsh", rsh(), "--", "true"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.log, AllOf(HasSubstr("another.invalid"), HasSubstr("--coordinator-address")));
  const auto interface = lockstep({"run", "-n", "1", "--interface", "nosuch0", "--", "true"});
  EXPECT_THAT(interface.log, AllOf(HasSubstr("'nosuch0'"), HasSubstr("lo")));
}

TEST_F(RunHosts, OnThisHost_ProcessesStartWithoutRsh) {
  const auto result =
      lockstep({"run", "--hosts", "localhost:2", "--rsh", "/no/such/rsh", "--", "echo", "here"});
  EXPECT_THAT(lines_of(result.log), UnorderedElementsAre("[0] here", "[1] here"));
}

LOCKSTEP_CHILD(counts_its_job) {
  auto client = join();
  client->barrier("all", std::chrono::minutes(10));
  client->shutdown();
  const std::string proxy = std::getenv(coordination::kProxyVariable);
  testing::say(proxy.empty() ? "left" : "left by " + proxy);
}

TEST_F(RunHosts, ProcessesOfAllHostsJoinOneJob) {
  const auto result =
      lockstep(run("a:2,b:2", rsh()) + Words{"--"} + testing::command_of_child("counts_its_job"));
  EXPECT_EQ(result.exit_code, 0);
  for (const char* process : {"[0@a]", "[1@a]", "[2@b]", "[3@b]"}) {
    EXPECT_THAT(result.log, HasSubstr(std::string(process) + " left"));
  }
}

TEST_F(RunHosts, WithHostProxy_ProcessesOfAHostShareTheAgentsConnection) {
  const Words by_proxy = {"-x", "LOCKSTEP_HOST_PROXY=1"};
  const auto result =
      lockstep(run("a:2,b:2", rsh(), by_proxy) + Words{"--"} + testing::command_of_child("counts_its_job"));
  EXPECT_EQ(result.exit_code, 0) << result.log;
  const auto port = [&](const std::string& process) {
    return number_after(result.log, process + " left by 127.0.0.1:");
  };
  EXPECT_GT(port("[0@a]"), 0) << result.log;
  EXPECT_EQ(port("[0@a]"), port("[1@a]"));
  EXPECT_EQ(port("[2@b]"), port("[3@b]"));
  EXPECT_NE(port("[0@a]"), port("[2@b]"));
}

TEST_F(RunHosts, ThroughProxies_AKilledProcessAndItsSignalAreToldToTheOthers) {
  const auto result = lockstep(run("a:2,b:2", rsh(), {"-x", "LOCKSTEP_HOST_PROXY=1"}) + Words{"--"} +
                               testing::command_of_child("process_one_is_killed"));
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  for (const char* process : {"0@a", "2@b", "3@b"}) {
    EXPECT_THAT(result.log, ContainsRegex("\\[" + std::string(process) +
                                          "\\] heard: .*process 1 \\(host .*signal 9 \\(SIGKILL\\)"));
  }
}

// Two hosts of the recipe, with an sshd on the second; then the script, with SSH as what runs commands there.
constexpr const char* kTwoHosts = R"(set -eu
dir=$PWD
ssh-keygen -q -t ed25519 -N '' -f key; ssh-keygen -q -t ed25519 -N '' -f hostkey
cat > sshd_config <<END
ListenAddress 10.77.0.2
HostKey $dir/hostkey
AuthorizedKeysFile $dir/key.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
END
$ON 2 sh -c "mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec $(command -v sshd || echo /usr/sbin/sshd) -D -e -f $dir/sshd_config" 2> sshd.log &
until $ON 1 bash -c 'echo > /dev/tcp/10.77.0.2/22' 2> /dev/null; do kill -0 $! || { cat sshd.log; exit 1; }; sleep 0.05; done
SSH="ssh -F /dev/null -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
)";

class TwoHosts : public RunHosts {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root, for networks of their own and an sshd in one";
    if (std::system("unshare --net --mount --pid --fork true 2> /dev/null") != 0)
      GTEST_SKIP() << "no namespaces here";
    if (std::system("PATH=$PATH:/usr/sbin; command -v sshd ssh ssh-keygen ip > /dev/null") != 0)
      GTEST_SKIP() << "needs openssh-server, openssh-client and iproute2";
    std::ofstream(file("script")) << "";
  }

  testing::ProcessesOptions two_hosts(const std::string& script) {
    std::ofstream(file("script")) << kTwoHosts << script;
    return {.program = LOCKSTEP_RECIPES "/netns-two-hosts.sh",
            .arguments = {"bash", file("script")},
            .env = {{"TOOL", LOCKSTEP_TOOL}}};
  }
};

TEST_F(TwoHosts, AreReachedBySsh) {
  const auto result = testing::run_processes(
      two_hosts("$ON 1 $TOOL run -v --hosts host1:1,10.77.0.2:2 --rsh \"$SSH -i key\" -x GIVEN='a b' -- "
                "sh -c 'echo $(hostname) $GIVEN $LOCKSTEP_COORDINATOR_ADDRESS; [ $LOCKSTEP_PROCESS_ID != 2 ] "
                "|| exit 7'"))[0];
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(result.log, AllOf(HasSubstr("[0@host1] host1 a b 10.77.0.1:"),
                                HasSubstr("[1@10.77.0.2] host2 a b 10.77.0.1:"),
                                HasSubstr("process 2 (host 10.77.0.2, pid "), HasSubstr("exit status 7")));
}

TEST_F(TwoHosts, AnErrorOfSsh_IsShown) {
  const auto result = testing::run_processes(
      two_hosts("$ON 1 $TOOL run --hosts host1:1,10.77.0.2:2 --rsh \"$SSH -i hostkey\" -- true"))[0];
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.log, AllOf(HasSubstr("cannot start on host 10.77.0.2: ssh died: exit status 255"),
                                HasSubstr("Permission denied (publickey")));
}

TEST_F(TwoHosts, AHostCutOff_IsNamed_AndEachSideEndsItsProcesses) {
  const auto result =
      testing::run_processes(two_hosts("$ON 1 $TOOL run --hosts host1:1,10.77.0.2:1 --heartbeat-timeout 4 "
                                       "--grace 0.4 --rsh \"$SSH -i key\" -- "
                                       "sh -c 'echo ready; exec sleep 1000' | while read line; do\n"
                                       "  echo \"$line\"; case $line in *host2*|*0.2*ready) $ON link 2 "
                                       "down;; esac; done; echo ${PIPESTATUS[0]}\n"
                                       "for i in $(seq 300); do $ON 2 pgrep -x sleep -a | grep -q 1000 || { "
                                       "echo gone; break; }; sleep 0.1; done\n"
                                       "! $ON 1 pgrep -x sleep -a | grep 1000"))[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, AllOf(HasSubstr("process 1 (host 10.77.0.2, pid "),
                                HasSubstr("has not answered for 4 s"), HasSubstr("\ngone\n")));
}

// The second host, by another name, is reached from the first time it is.
constexpr const char* kOverARelay =
    "$ON 1 env LOCKSTEP_HOST_FAN_OUT=1 $TOOL run --hosts host1:1,10.77.0.2:1,root@10.77.0.2:1";

TEST_F(TwoHosts, AHostBehindARelay_IsReachedBySsh) {
  const auto result = testing::run_processes(two_hosts(
      std::string(kOverARelay) +
      " --rsh \"$SSH -i key\" -- sh -c 'echo on $(hostname), relays: $(pgrep -fc host-relay$)'"))[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log,
              AllOf(HasSubstr("[0@host1] on host1, "), HasSubstr("[1@10.77.0.2] on host2, relays: 1\n"),
                    HasSubstr("[2@10.77.0.2] on host2, relays: 1\n")));
}

TEST_F(TwoHosts, AProcessBehindARelayThatIsCutOff_Ends) {
  const auto result = testing::run_processes(
      two_hosts(std::string(kOverARelay) + " --heartbeat-timeout 4 --grace 0.4 --rsh \"$SSH -i key\" -- "
                                           "sh -c 'echo ready; exec sleep 1000' | while read line; do\n"
                                           "  echo \"$line\"; case $line in \\[2*ready) $ON link 2 "
                                           "down;; esac; done; echo ${PIPESTATUS[0]}\n"
                                           "for i in $(seq 300); do $ON 2 pgrep -f host- || { "
                                           "echo gone; break; }; sleep 0.1; done\n"
                                           "! $ON 2 pgrep -x sleep -a | grep 1000"))[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log,
              AllOf(ContainsRegex("the job failed: process 1 \\(host 10.77.0.2(, pid [0-9]+)?\\) died: host "
                                  "10.77.0.2 has not answered for 4 s"),
                    HasSubstr("\ngone\n")));
}

TEST_F(RunHosts, UnderARealSlurm_ProcessesStartOnTheirNodes) {
  if (const std::string lacking = lacking_for_slurm(); !lacking.empty()) GTEST_SKIP() << lacking;
  const std::string script =
      "salloc -Q -N2 -n4 --ntasks-per-node=2 " LOCKSTEP_TOOL
      " run --slurm -- sh -c 'echo on $SLURMD_NODENAME; [ $LOCKSTEP_PROCESS_ID != 3 ] || exit 7'";
  const auto result = testing::run_processes(
      {.program = LOCKSTEP_RECIPES "/slurm-one-node.sh", .arguments = {"-N", "2", "sh", "-c", script}})[0];
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(result.log, AllOf(HasSubstr("[1@node1] on node1\n"), HasSubstr("[2@node2] on node2\n"),
                                HasSubstr("the job failed: process 3 (host node2, pid ")));
}

TEST_F(RunHosts, Srun_IsAskedForOneAgentOnEachNode) {
  // In the place of srun: notes its words and runs what follows its options.
  write_script(file("srun"), "#!/bin/sh\necho \"$*\" >> " + file("words").string() +
                                 "\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nexec \"$@\"\n");
  const auto result = lockstep({"run", "--slurm", "--coordinator-address", "127.0.0.1", "--", "echo", "here"},
                               {{"PATH", folder_.path().string() + ":" + std::getenv("PATH")},
                                {"SLURM_JOB_ID", "7"},
                                {"SLURM_JOB_NODELIST", "node[1-2]"},
                                {"SLURM_NTASKS", "3"},
                                {"SLURM_TASKS_PER_NODE", "2,1"}});
  EXPECT_THAT(lines_of(result.log),
              UnorderedElementsAre("[0@node1] here", "[1@node1] here", "[2@node2] here"));
  EXPECT_THAT(
      testing::read_file(file("words")),
      AllOf(HasSubstr("--nodelist=node1 "), HasSubstr("--nodelist=node2 "), HasSubstr("--ntasks=1 ")));
}

TEST_F(RunHosts, SlurmOutsideOfAnAllocation_IsAUsageError) {
  const auto result = lockstep({"run", "--slurm", "-n", "2", "--", "true"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(lines_of(result.log).size(), 1u);
  EXPECT_THAT(result.log, HasSubstr("SLURM_JOB_ID"));
}

}  // namespace
}  // namespace lockstep::cli
