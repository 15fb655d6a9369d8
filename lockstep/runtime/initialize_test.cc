// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/initialize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/coordination/server/server.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/testing/processes.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::ProcessesOptions;
using testing::ProcessResult;
using testing::run_processes;
using testing::say;

/// Prints the error of initialize() with the options, or what it made.
void try_initialize(const InitializeOptions& options = {}) {
  try {
    initialize(options);
    say("initialized " + std::to_string(process_index()) + " of " + std::to_string(process_count()) +
        " with " + std::to_string(local_device_count()) + " of " + std::to_string(device_count()) +
        " devices");
  } catch (const Error& error) {
    say(std::string("error: ") + error.what());
  }
}

LOCKSTEP_CHILD(plain) { try_initialize(); }
LOCKSTEP_CHILD(twice) {
  try_initialize();
  try_initialize();
}
LOCKSTEP_CHILD(late) {
  devices();
  try_initialize();
}
LOCKSTEP_CHILD(uses_devices_first) {
  try {
    devices();
  } catch (const Error& error) {
    say(std::string("error: ") + error.what());
  }
}
LOCKSTEP_CHILD(leaves_in_order) {
  initialize();
  shutdown();
  say(is_initialized() ? "still there" : "left");
  shutdown();
}
LOCKSTEP_CHILD(exits_with_3) {
  initialize();
  say("in");
  while (!std::filesystem::exists("go")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::exit(3);
}

TEST(Initialize, SingleProcess_SeesItsDevices) {
  ProcessResult result = run_processes({.child = "plain", .env = {{"LOCKSTEP_NUM_CPU_DEVICES", "3"}}})[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, HasSubstr("initialized 0 of 1 with 3 of 3 devices"));
}

TEST(Initialize, FourProcesses_SeeAllDevices) {
  auto results = run_processes(
      {.count = 4, .child = "plain", .env = {{"LOCKSTEP_NUM_CPU_DEVICES", "2"}}, .coordinator = true});
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(results[i].exit_code, 0);
    EXPECT_THAT(results[i].log, HasSubstr("initialized " + std::to_string(i) + " of 4 with 2 of 8 devices"));
  }
}

TEST(Initialize, WithoutALauncher_ProcessZeroHoldsTheCoordinator) {
  coordination::CoordinationServer probe;  // a port that the kernel picks, let go again
  probe.start({.num_processes = 1});
  std::string address = "127.0.0.1:" + std::to_string(probe.port());
  probe.stop();
  auto results = run_processes({.count = 3,
                                .child = "leaves_in_order",
                                .env = {{"JAX_COORDINATOR_ADDRESS", address}, {"JAX_NUM_PROCESSES", "3"}},
                                .env_of = [](int i) {
                                  return testing::Variables{{"JAX_PROCESS_ID", std::to_string(i)}};
                                }});
  for (const ProcessResult& result : results) {
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.log, HasSubstr("left"));
  }
}

/// A variable that one process of three may have alone, and the words for it that all three say.
struct Lone {
  const char *variable, *value, *words;
};
void PrintTo(const Lone& lone, std::ostream* out) { *out << lone.variable; }

class InitializeWith : public ::testing::TestWithParam<Lone> {};

TEST_P(InitializeWith, AnErrorInOneProcess_IsReportedByAll) {
  const auto [variable, value, words] = GetParam();
  auto results = run_processes({.count = 3,
                                .child = "plain",
                                .env = {{"LOCKSTEP_INITIALIZATION_TIMEOUT", "600"}},
                                .env_of =
                                    [&](int process) {
                                      testing::Variables own;
                                      if (process == 1) own[variable] = value;
                                      return own;
                                    },
                                .coordinator = true});
  for (const ProcessResult& result : results) {
    EXPECT_FALSE(result.timed_out);
    EXPECT_THAT(result.log, ::testing::AllOf(HasSubstr("error: "), HasSubstr(words)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, InitializeWith,
    ::testing::Values(Lone{"LOCKSTEP_PJRT_PLUGIN", "/no/such/plugin.so", "/no/such/plugin.so"},
                      Lone{"LOCKSTEP_PLATFORM", "cuda", "cuda"},
                      Lone{"LOCKSTEP_REPRODUCIBLE_SUMS", "1", "reproducible_sums is true in process 1 of 3"},
                      Lone{"LOCKSTEP_DATA_TLS", "1", "data_tls is true in process 1 of 3"}),
    [](const auto& info) { return std::string(info.param.variable); });

testing::Variables explicit_variables(int process) {
  return {{"LOCKSTEP_PROCESS_ID", std::to_string(process)}};
}

TEST(Initialize, WhereACoordinatorServesAlready_ProcessZeroOnlyJoins) {
  coordination::CoordinationServer server;
  server.start({.num_processes = 2});
  auto results = run_processes(
      {.count = 2,
       .child = "leaves_in_order",
       .env = {{"LOCKSTEP_COORDINATOR_ADDRESS", server.address()}, {"LOCKSTEP_NUM_PROCESSES", "2"}},
       .env_of = explicit_variables});
  for (const ProcessResult& result : results) {
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.log, HasSubstr("left"));
  }
  EXPECT_THAT(results[0].log,
              HasSubstr("joining the coordinator that already serves at " + server.address()));
}

TEST(Initialize, PortOfAnotherProgram_IsAnError) {
  const int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  socklen_t size = sizeof address;
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  const std::string port = std::to_string(ntohs(address.sin6_port));
  ProcessResult result = run_processes({.child = "plain",
                                        .env = {{"LOCKSTEP_COORDINATOR_ADDRESS", "localhost:" + port},
                                                {"LOCKSTEP_NUM_PROCESSES", "2"},
                                                {"LOCKSTEP_PROCESS_ID", "0"}}})[0];
  close(listener);
  EXPECT_THAT(result.log, ::testing::AllOf(HasSubstr("error: [initialize] process 0 of 2, cluster explicit"),
                                           HasSubstr("port is in use"), HasSubstr(port)));
}

TEST(Initialize, CoordinatorAddressOfAnotherHost_IsAnErrorOfProcessZero) {
  ProcessResult result = run_processes({.child = "plain",
                                        .env = {{"LOCKSTEP_COORDINATOR_ADDRESS", "192.0.2.1:9"},
                                                {"LOCKSTEP_NUM_PROCESSES", "2"},
                                                {"LOCKSTEP_PROCESS_ID", "0"},
                                                {"LOCKSTEP_INITIALIZATION_TIMEOUT", "1"}}})[0];
  EXPECT_THAT(result.log, HasSubstr("192.0.2.1:9 is not an address of process 0's host"));
  EXPECT_THAT(result.log, HasSubstr("error: "));
}

TEST(Initialize, ASecondCall_IsAnErrorThatNamesTheFirst) {
  ProcessResult result = run_processes({.child = "twice"})[0];
  EXPECT_THAT(result.log, HasSubstr("error: [initialize] called a second time"));
  EXPECT_THAT(result.log, HasSubstr("the first call was at initialize_test.cc:"));
}

TEST(Initialize, AfterADeviceWasUsed_IsAnErrorThatNamesTheLine) {
  ProcessResult result = run_processes({.child = "late"})[0];
  EXPECT_THAT(result.log, HasSubstr("after a device was used (first at initialize_test.cc:"));
}

TEST(Initialize, UsingDevicesBeforeIt_UnderALauncher_IsAnError) {
  auto results = run_processes({.count = 2, .child = "uses_devices_first", .coordinator = true});
  EXPECT_THAT(results[1].log, HasSubstr("before initialize(), although this process was started as 1 of 2"));
}

TEST(Initialize, UsingDevicesBeforeIt_WithClusterNone_IsASingleProcess) {
  auto run_under = [](testing::Variables variables) {
    return run_processes({.child = "uses_devices_first", .env = std::move(variables)})[0];
  };
  EXPECT_THAT(run_under({{"WORLD_SIZE", "4"}}).log,
              HasSubstr("WORLD_SIZE=4 set, RANK, MASTER_ADDR, MASTER_PORT missing"));
  ProcessResult alone = run_under({{"WORLD_SIZE", "4"}, {"LOCKSTEP_CLUSTER", "none"}});
  EXPECT_EQ(alone.exit_code, 0);
  EXPECT_THAT(alone.log, ::testing::Not(HasSubstr("error: ")));
}

TEST(Initialize, UnreachableCoordinators_AreReportedWithTheReason) {
  auto log_for = [](const std::string& address) {
    return run_processes({.child = "plain",
                          .env = {{"LOCKSTEP_COORDINATOR_ADDRESS", address},
                                  {"LOCKSTEP_NUM_PROCESSES", "2"},
                                  {"LOCKSTEP_PROCESS_ID", "1"},
                                  {"LOCKSTEP_INITIALIZATION_TIMEOUT", "2"}}})[0]
        .log;
  };
  EXPECT_THAT(log_for("no-such-host.invalid:1234"), HasSubstr("resolve"));
  EXPECT_THAT(log_for("127.0.0.1:1"), HasSubstr("refuse"));
}

TEST(Initialize, MissingProcessesAtTheDeadline_AreNamed) {
  coordination::CoordinationServer server;
  server.start({.num_processes = 3, .register_timeout = std::chrono::seconds(2)});
  auto results = run_processes({.count = 2,
                                .child = "plain",
                                .env = {{"LOCKSTEP_LAUNCHER", "1"},
                                        {"LOCKSTEP_COORDINATOR_ADDRESS", server.address()},
                                        {"LOCKSTEP_NUM_PROCESSES", "3"},
                                        {"LOCKSTEP_INITIALIZATION_TIMEOUT", "2"}},
                                .env_of = [](int i) {
                                  return testing::Variables{{"LOCKSTEP_PROCESS_ID", std::to_string(i)}};
                                }});
  for (const ProcessResult& result : results) {
    EXPECT_THAT(result.log, HasSubstr("error: "));
    EXPECT_THAT(result.log, ::testing::ContainsRegex("missing[^\n]*2|2[^\n]*missing"));
  }
}

TEST(Initialize, TakenProcessId_IsRefused) {
  coordination::CoordinationServer server;
  server.start({.num_processes = 2, .register_timeout = std::chrono::seconds(5)});
  auto results = run_processes({.count = 3,
                                .child = "plain",
                                .env = {{"LOCKSTEP_LAUNCHER", "1"},
                                        {"LOCKSTEP_COORDINATOR_ADDRESS", server.address()},
                                        {"LOCKSTEP_NUM_PROCESSES", "2"},
                                        {"LOCKSTEP_INITIALIZATION_TIMEOUT", "5"},
                                        {"LOCKSTEP_SHUTDOWN_TIMEOUT", "2"}},
                                .env_of = [](int i) {
                                  return testing::Variables{{"LOCKSTEP_PROCESS_ID", std::to_string(i / 2)}};
                                }});
  EXPECT_THAT(results[0].log + results[1].log, HasSubstr("error: "));
}

TEST(Initialize, AFileThatIsNoPlugin_IsNamed) {
  ProcessResult result =
      run_processes({.child = "plain", .env = {{"LOCKSTEP_PJRT_PLUGIN", "/etc/hostname"}}})[0];
  EXPECT_THAT(result.log, HasSubstr("/etc/hostname"));
  EXPECT_THAT(result.log, HasSubstr("error: "));
}

/// A log without the line that process 0 writes when the job has met.
std::string without_banner(const std::string& log) {
  std::istringstream lines(log);
  std::string rest;
  for (std::string line; std::getline(lines, line);)
    if (line.find("] cluster ") == std::string::npos) rest += line + "\n";
  return rest;
}

TEST(Initialize, Banner_IsLoggedOncePerJob) {
  auto results = run_processes(
      {.count = 3, .child = "plain", .env = {{"LOCKSTEP_NUM_CPU_DEVICES", "2"}}, .coordinator = true});
  EXPECT_THAT(results[0].log, ::testing::ContainsRegex(
                                  "process 0 of 3. cluster launcher .LOCKSTEP_LAUNCHER=1, .*, coordinator "
                                  "127.0.0.1:[0-9]+, 2 of 6 devices here, on host "));
  for (int i : {1, 2}) EXPECT_THAT(results[i].log, ::testing::Not(HasSubstr("cluster"))) << i;
}

TEST(Shutdown, ReturningFromMainEverywhere_IsSilent) {
  auto results = run_processes({.count = 3, .child = "leaves_in_order", .coordinator = true});
  for (const ProcessResult& result : results) {
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(without_banner(result.log), "left\n");
  }
}

TEST(Shutdown, ExitWithAnErrorStatus_DoesNotWaitForTheOthers) {
  testing::Processes processes(
      {.count = 2, .child = "exits_with_3", .coordinator = true, .deadline = std::chrono::seconds(30)});
  for (int i : {0, 1}) processes.wait_for_line(i, "in");  // who ends earlier ends the other's initialize()
  for (int i : {0, 1}) std::ofstream(processes.folder(i) / "go");
  for (const ProcessResult& result : processes.wait()) EXPECT_EQ(result.exit_code, 3);
}

}  // namespace
}  // namespace lockstep
