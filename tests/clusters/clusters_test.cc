// SPDX-License-Identifier: Apache-2.0
// The examples under the launchers that can be had on one machine. What each shows of itself in the
// environment, and the launchers that cannot, are tested in lockstep/cluster.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lockstep/coordination/server/server.h"
#include "lockstep/testing/processes.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProcessResult;
using testing::run_processes;
using testing::Variables;

const std::string kTrain = LOCKSTEP_TRAIN_DIGITS;
const std::string kHello = LOCKSTEP_HELLO_DEVICES;
const std::string kSlurmRecipe = LOCKSTEP_RECIPES "/slurm-one-node.sh";

/// The program on PATH or in the folders of the system's administrator; empty where there is none.
std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(std::string(path == nullptr ? "" : path) + ":/usr/sbin:/sbin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/" + name;
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

/// Runs the command and gives its end; its output comes as one log.
ProcessResult run(const std::vector<std::string>& command, const Variables& env = {}) {
  return run_processes({.program = command.front(),
                        .arguments = std::vector<std::string>(command.begin() + 1, command.end()),
                        .env = env,
                        .deadline = std::chrono::seconds(120)})
      .front();
}

/// How often the text stands in the log.
int count_of(const std::string& text, const std::string& log) {
  int count = 0;
  for (auto at = log.find(text); at != std::string::npos; at = log.find(text, at + text.size())) ++count;
  return count;
}

void expect_training(const ProcessResult& result, const std::string& cluster) {
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, HasSubstr("[process 0 of 4] cluster " + cluster + " ("));
  EXPECT_EQ(count_of("] cluster ", result.log), 1) << "the banner is said once for a job";
  double accuracy = 0;
  const auto at = result.log.find("test accuracy ");
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(std::sscanf(result.log.c_str() + at, "test accuracy %lf", &accuracy), 1);
  std::printf("%s: test accuracy %.3f\n", cluster.c_str(), accuracy);
  EXPECT_GT(accuracy, 0.9);
}

/// Namespaces and mounts, which a plain user, or a container that is closed to them, cannot have.
bool can_have_namespaces() {
  return !find_program("unshare").empty() &&
         run({find_program("unshare"), "--net", "--mount", "--uts", "--ipc", "--pid", "--fork",
              "--mount-proc", "/bin/sh", "-c", "mount -t tmpfs tmpfs /run"})
                 .exit_code == 0;
}

class Slurm : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* program : {"slurmctld", "slurmd", "srun", "munged", "ip", "setpriv"})
      if (find_program(program).empty()) GTEST_SKIP() << program << " is not installed";
    if (geteuid() != 0) GTEST_SKIP() << "the recipe of a private Slurm needs root";
    if (!can_have_namespaces()) GTEST_SKIP() << "no namespaces can be made here";
  }

  /// Runs the command beside a Slurm of two nodes.
  ProcessResult run_beside(const std::vector<std::string>& command, const Variables& env = {}) {
    std::vector<std::string> all = {kSlurmRecipe, "-N", "2"};
    all.insert(all.end(), command.begin(), command.end());
    return run(all, env);
  }
};

TEST_F(Slurm, StepOverTwoNodes_TrainsTheDigits) {
  ProcessResult result = run_beside({"srun", "-N2", "-n4", kTrain});
  expect_training(result, "slurm");
  EXPECT_THAT(result.log, HasSubstr("coordinator node1:"));
}

TEST_F(Slurm, StepWithPmi2_IsOneJob) {
  ProcessResult result = run_beside({"srun", "--mpi=pmi2", "-N2", "-n2", kHello});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log,
              AllOf(HasSubstr("[process 0 of 2] cluster slurm ("), HasSubstr("2 devices in all")));
}

TEST_F(Slurm, TwoStepsOfAnAllocationAtOnce_AreSeparateJobs) {
  ProcessResult result =
      run_beside({"salloc", "-N2", "-n4", "/bin/sh", "-c",
                  "srun -N2 -n2 --overlap " + kHello + " & srun -N2 -n2 --overlap " + kHello + " & wait"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(count_of("[process 0 of 2] cluster slurm (", result.log), 2);
  EXPECT_EQ(count_of("2 devices in all", result.log), 4);
}

TEST_F(Slurm, ShellOfAnAllocation_IsASingleProcessWithTheReason) {
  ProcessResult result = run_beside({"salloc", "-N2", "-n4", kHello});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, AllOf(HasSubstr("cluster single (SLURM_JOB_ID="), HasSubstr("srun starts one"),
                                HasSubstr("1 devices in all")));
}

TEST_F(Slurm, StepWhoseVariablesAreHalfCleared_IsAnError) {
  ProcessResult result = run_beside({"srun", "-N2", "-n2", "env", "-u", "SLURM_PROCID", kHello});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.log, AllOf(HasSubstr("SLURM_PROCID missing"), HasSubstr("SLURM_STEP_NUM_TASKS=2"),
                                Not(HasSubstr("devices in all"))));
}

TEST_F(Slurm, TasksWithClusterNone_AreSingleProcesses) {
  ProcessResult result = run_beside({"srun", "-N2", "-n2", kHello}, {{"LOCKSTEP_CLUSTER", "none"}});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(count_of("1 devices in all", result.log), 2);
}

/// An MPI's launcher: its name here, and the options that start on one small machine as root.
struct Mpi {
  const char* cluster;
  const char* program;
  std::vector<std::string> options;
  std::string set;        ///< The option that gives a variable to the processes,
  bool apart;             ///< as two words (NAME VALUE) or one (NAME=VALUE).
  const char* half;       ///< Without this variable,
  const char* left_over;  ///< this is there.
};

void PrintTo(const Mpi& mpi, std::ostream* stream) { *stream << mpi.program; }

class MpiTest : public ::testing::TestWithParam<Mpi> {
 protected:
  void SetUp() override {
    if (find_program(GetParam().program).empty()) GTEST_SKIP() << GetParam().program << " is not installed";
  }

  std::vector<std::string> mpirun(int count, const Variables& given = {}) {
    std::vector<std::string> command = {find_program(GetParam().program)};
    command.insert(command.end(), GetParam().options.begin(), GetParam().options.end());
    for (const auto& [name, value] : given) {
      command.push_back(GetParam().set);
      command.push_back(GetParam().apart ? name : name + "=" + value);
      if (GetParam().apart) command.push_back(value);
    }
    command.insert(command.end(), {"-n", std::to_string(count)});
    return command;
  }

  static std::vector<std::string> of(std::vector<std::string> command,
                                     const std::vector<std::string>& program) {
    command.insert(command.end(), program.begin(), program.end());
    return command;
  }

  /// The program as a child of a shell, which ends with an exit status also where a signal ends the program:
  /// of processes that a signal ends, MPICH's mpiexec may lose the output.
  static std::vector<std::string> below_a_shell(const std::string& program) {
    return {"/bin/sh", "-c", program + "; exit $?"};
  }
};

TEST_P(MpiTest, FourProcesses_TrainTheDigits) {
  ProcessResult result = run(of(mpirun(4), {kTrain}));
  expect_training(result, GetParam().cluster);
  EXPECT_THAT(result.log, HasSubstr("coordinator 127.0.0.1:"));
}

TEST_P(MpiTest, ProgramBelowAShell_IsPartOfTheJob) {
  ProcessResult result = run(of(mpirun(2), below_a_shell(kHello)));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(count_of("2 devices in all", result.log), 2);
}

TEST_P(MpiTest, HalfClearedVariables_AreAnError) {
  ProcessResult result =
      run(of(mpirun(2), below_a_shell(std::string("env -u ") + GetParam().half + " " + kHello)));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.log, AllOf(HasSubstr(std::string(GetParam().half) + " missing"),
                                HasSubstr(GetParam().left_over), Not(HasSubstr("devices in all"))));
}

TEST_P(MpiTest, SeveralProcessesThatEachHaveNumProcesses1_AreAnError) {
  ProcessResult result = run(of(mpirun(2, {{"LOCKSTEP_COORDINATOR_ADDRESS", "127.0.0.1:1"},
                                           {"LOCKSTEP_NUM_PROCESSES", "1"},
                                           {"LOCKSTEP_PROCESS_ID", "0"}}),
                                below_a_shell(kHello)));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.log, AllOf(HasSubstr("makes this process a job of one, but "),
                                HasSubstr("started several"), Not(HasSubstr("devices in all"))));
}

INSTANTIATE_TEST_SUITE_P(
    , MpiTest,
    ::testing::Values(Mpi{"ompi",
                          "mpirun.openmpi",
                          {"--allow-run-as-root", "--oversubscribe"},
                          "-x",
                          false,
                          "OMPI_COMM_WORLD_RANK",
                          "OMPI_COMM_WORLD_SIZE=2"},
                      Mpi{"pmi", "mpiexec.hydra", {}, "-genv", true, "PMI_SIZE", "PMI_RANK="}),
    [](const auto& info) {
      return std::string(info.param.cluster == std::string("ompi") ? "OpenMpi" : "Mpich");
    });

/// Two pods of an indexed job, but for the cluster around them: the variables, the host name, and the names
/// in /etc/hosts.
TEST(Kubernetes, PodsOfAnIndexedJob_Meet) {
  if (geteuid() != 0 || !can_have_namespaces()) GTEST_SKIP() << "no namespaces can be made here";
  const std::string folder = ::testing::TempDir() + "/lockstep_pods_" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/hosts") << "127.0.0.1 localhost\n"
                                      "127.0.0.1 train-0.workers.default.svc.cluster.local train-0\n"
                                      "127.0.0.1 train-1.workers.default.svc.cluster.local train-1\n";
  const std::string pod = "env HOSTNAME=train-$i JOB_COMPLETION_INDEX=$i " + kHello;
  ProcessResult result =
      run({find_program("unshare"), "--net", "--mount", "/bin/sh", "-c",
           "set -e; ip link set lo up; mount --bind " + folder + "/hosts /etc/hosts; (i=0; " + pod +
               ") & p=$!; (i=1; " + pod + "); wait $p"},
          {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"}, {"LOCKSTEP_NUM_PROCESSES", "2"}});
  std::filesystem::remove_all(folder);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(
      result.log,
      HasSubstr("coordinator train-0.workers.default.svc.cluster.local:55527 (held by this process)"));
  EXPECT_EQ(count_of("2 devices in all", result.log), 2);
}

/// Two hosts as network namespaces: host1 at 10.77.0.1, host2 at 10.77.0.2, and this one beside them.
class TwoHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* program : {"ip", "nsenter", "setpriv"})
      if (find_program(program).empty()) GTEST_SKIP() << program << " is not installed";
    if (geteuid() != 0 || !can_have_namespaces()) GTEST_SKIP() << "no namespaces can be made here";
    folder_ = ::testing::TempDir() + "/lockstep_hosts_" + std::to_string(getpid());
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  /// Runs the shell's text beside the hosts; $ON I COMMAND runs one on host I.
  ProcessResult run_beside(const std::string& script, const Variables& env = {}) {
    return run({LOCKSTEP_RECIPES "/netns-two-hosts.sh", "/bin/sh", "-c", script}, env);
  }

  /// mpiexec of MPICH beside the hosts, which it reaches as if by ssh.
  std::string mpiexec() {
    const std::string remote_shell = folder_ + "/remote_shell";
    std::ofstream(remote_shell) << "#!/bin/sh\n"
                                   "while [ \"${1#-}\" != \"$1\" ]; do shift; done\n"
                                   "host=$1; shift\n"
                                   "exec $ON ${host#host} sh -c \"$*\"\n";
    std::filesystem::permissions(remote_shell, std::filesystem::perms::owner_all);
    return find_program("mpiexec.hydra") + " -iface br0 -launcher ssh -launcher-exec " + remote_shell +
           " -hosts host1,host2 -ppn 2 -n 4 ";
  }

 private:
  std::string folder_;
};

TEST_F(TwoHosts, WithAnInterfaceChosen_TheCoordinatorListensThere) {
  ProcessResult result = run_beside("$ON 1 env LOCKSTEP_PROCESS_ID=0 " + kHello +
                                        " & p=$!; $ON 2 env LOCKSTEP_PROCESS_ID=1 " + kHello + " && wait $p",
                                    {{"LOCKSTEP_COORDINATOR_ADDRESS", "10.77.0.1:8476"},
                                     {"LOCKSTEP_NUM_PROCESSES", "2"},
                                     {"LOCKSTEP_INTERFACE", "eth0"}});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, AllOf(HasSubstr("the coordinator at 10.77.0.1:8476 is open to everybody"),
                                HasSubstr("on 2 hosts: host1, host2")));
  EXPECT_EQ(count_of("2 devices in all", result.log), 2);
}

TEST_F(TwoHosts, UnderMpich_TrainTheDigitsTogether) {
  if (find_program("mpiexec.hydra").empty()) GTEST_SKIP() << "mpiexec.hydra is not installed";
  ProcessResult result =
      run_beside(mpiexec() + "-genv LOCKSTEP_COORDINATOR_ADDRESS 10.77.0.1:8476 " + kTrain + " --epochs 10");
  expect_training(result, "pmi");
  EXPECT_THAT(result.log, HasSubstr("on 2 hosts: host1, host2"));
}

TEST_F(TwoHosts, RanksOfACommunicator_MeetAtTheHostOfRank0) {
  const std::string program = LOCKSTEP_MPI_PROGRAMS "/ranks-mpich";
  if (find_program("mpiexec.hydra").empty() || !std::filesystem::exists(program))
    GTEST_SKIP() << "MPICH is not installed with its headers";
  ProcessResult result = run_beside(mpiexec() + "-genv LOCKSTEP_INTERFACE eth0 " + program + " world");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, AllOf(HasSubstr("coordinator 10.77.0.1:"), HasSubstr("on 2 hosts: host1, host2"),
                                Not(HasSubstr("open to everybody")),
                                HasSubstr("world: rank 3 is process 3 of 4, sums 120 120")));
}

TEST_F(TwoHosts, WithMpiexecOnAThirdHost_ProcessZeroCannotHoldTheCoordinator) {
  if (find_program("mpiexec.hydra").empty()) GTEST_SKIP() << "mpiexec.hydra is not installed";
  ProcessResult result = run_beside(mpiexec() + "-genv LOCKSTEP_INITIALIZATION_TIMEOUT 1 " + kHello);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.log,
              AllOf(::testing::ContainsRegex("10.77.0.254:[0-9]+ is not an address of process 0's host"),
                    HasSubstr("set LOCKSTEP_COORDINATOR_ADDRESS"),
                    HasSubstr("cannot join the job at the coordinator 10.77.0.254:")));
}

/// A port that nobody has a moment ago.
std::string free_port() {
  coordination::CoordinationServer probe;
  probe.start({.num_processes = 1});
  std::string port = std::to_string(probe.port());
  probe.stop();
  return port;
}

TEST(Explicit, HostNamesAndIpv4AndIpv6Addresses_AreAccepted) {
  for (const std::string host : {"localhost", "127.0.0.1", "[::1]"}) {
    if (host == "[::1]" && !std::filesystem::exists("/proc/net/if_inet6")) continue;
    auto results = run_processes({.count = 2,
                                  .program = kHello,
                                  .env = {{"LOCKSTEP_COORDINATOR_ADDRESS", host + ":" + free_port()},
                                          {"LOCKSTEP_NUM_PROCESSES", "2"},
                                          {"http_proxy", "http://127.0.0.1:9"},
                                          {"https_proxy", "http://127.0.0.1:9"}},
                                  .env_of = [](int i) {
                                    return Variables{{"LOCKSTEP_PROCESS_ID", std::to_string(i)}};
                                  }});
    for (const ProcessResult& result : results) {
      EXPECT_EQ(result.exit_code, 0) << host;
      EXPECT_THAT(result.log, HasSubstr("2 devices in all")) << host;
    }
  }
}

}  // namespace
}  // namespace lockstep
