// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cli/testing/tool.h"
#include "lockstep/base/error.h"
#include "lockstep/coordination/client/client.h"
#include "lockstep/testing/processes.h"

// `lockstep coordinator` as a process, and clients of it in this one.

namespace lockstep::cli {
namespace {

using coordination::ClientOptions;
using coordination::CoordinationClient;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Processes;
using testing::ProcessesOptions;
using testing::ProcessResult;

constexpr std::chrono::seconds kLong(60);

class Coordinator {
 public:
  explicit Coordinator(Words arguments, testing::Variables env = {})
      : process_({.program = LOCKSTEP_TOOL, .arguments = full(std::move(arguments)), .env = std::move(env)}) {
  }

  /// Blocks until it serves.
  std::string address() {
    process_.wait_for_line(0, "lockstep coordinator: serves ");
    std::string log = process_.log(0);
    const std::size_t line = log.find("lockstep coordinator: serves ");
    while (log.find('\n', line) == std::string::npos) log = process_.log(0);
    std::size_t at = log.find("127.0.0.1:", line);
    return log.substr(at, log.find('\n', at) - at);
  }
  void wait_for(const std::string& text) { process_.wait_for_line(0, text); }
  void signal(int number) { process_.kill(0, number); }
  ProcessResult wait() { return process_.wait(0); }

 private:
  static Words full(Words arguments) {
    arguments.insert(arguments.begin(), "coordinator");
    return arguments;
  }
  Processes process_;
};

std::vector<std::unique_ptr<CoordinationClient>> connect(const std::string& address, int num_processes,
                                                         const coordination::Identity& identity = {}) {
  std::vector<std::unique_ptr<CoordinationClient>> clients;
  std::vector<std::thread> threads;
  for (int i = 0; i < num_processes; ++i) {
    ClientOptions options;
    options.address = address;
    options.process_id = i;
    options.num_processes = num_processes;
    options.identity = identity;
    options.initialization_timeout = kLong;
    clients.push_back(coordination::make_grpc_client(options));
    threads.emplace_back([client = clients.back().get()] { client->connect(); });
  }
  for (auto& thread : threads) thread.join();
  return clients;
}

TEST(CoordinatorCommand, AllLeave_EndsWithStatus0) {
  Coordinator coordinator({"--num-processes", "3"});
  auto clients = connect(coordinator.address(), 3);
  std::vector<std::thread> leaving;
  for (auto& client : clients) leaving.emplace_back([&] { client->shutdown(); });
  for (auto& thread : leaving) thread.join();
  auto result = coordinator.wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, HasSubstr("serves a job of 3 processes at 127.0.0.1:"));
}

TEST(CoordinatorCommand, AProcessFails_TheFirstCauseIsPrinted_AndTheStatusIs1) {
  Coordinator coordinator({"--num-processes", "2"});
  auto clients = connect(coordinator.address(), 2);
  clients[1]->report_own_error("bad input");
  EXPECT_THROW(clients[0]->barrier("b", kLong), PeerFailure);
  clients[0]->shutdown();
  auto result = coordinator.wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.log, AllOf(HasSubstr("lockstep coordinator: process 1 (host "),
                                HasSubstr(") ended with an error: bad input\n")));
}

TEST(CoordinatorCommand, MissingProcesses_AreNamedAtTheEnd) {
  Coordinator coordinator({"--num-processes", "2", "--register-timeout", "1"});
  const std::string address = coordinator.address();
  ClientOptions options;
  options.address = address;
  options.num_processes = 2;
  EXPECT_THROW(coordination::make_grpc_client(options)->connect(), InitializationError);
  auto result = coordinator.wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.log, HasSubstr("after 1 s 1 of 2 processes have joined: 0 "));
  EXPECT_THAT(result.log, HasSubstr("missing: process 1 of 2"));
}

TEST(CoordinatorCommand, ASignal_EndsTheCoordinator_AndTheCallsOfItsProcessesFail) {
  Coordinator coordinator({"--num-processes", "1"});
  auto clients = connect(coordinator.address(), 1);
  coordinator.signal(SIGTERM);
  auto result = coordinator.wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.log, HasSubstr("Terminated before all had left: 0 of 1 processes have left"));
  EXPECT_THROW(clients[0]->barrier("b", kLong), PeerFailure);
}

TEST(CoordinatorCommand, ProcessOfAnotherAttempt_IsRefused_TheJobsOwnIsNot) {
  const coordination::Identity job{"job-7", 2, "a secret of the job"};
  Coordinator coordinator(
      {"--num-processes", "1"},
      {{"LOCKSTEP_JOB_SECRET", job.secret}, {"LOCKSTEP_JOB_ID", job.job_id}, {"LOCKSTEP_ATTEMPT", "2"}});
  const std::string address = coordinator.address();
  try {
    ClientOptions options;
    options.address = address;
    options.identity = {job.job_id, 1, job.secret};
    coordination::make_grpc_client(options)->connect();
    ADD_FAILURE() << "it came in";
  } catch (const InitializationError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'job-7', attempt 1"), HasSubstr("'job-7', attempt 2")));
  }
  auto clients = connect(address, 1, job);
  clients[0]->shutdown();
  EXPECT_EQ(coordinator.wait().exit_code, 0);
}

TEST(CoordinatorCommand, Keep_ServesLaterStarts_UntilASignal) {
  Coordinator coordinator({"--num-processes", "2", "--keep"});
  const std::string address = coordinator.address();
  for (int start = 0; start < 3; ++start) {
    auto clients = connect(address, 2);
    clients[0]->key_value_store().set("once", "in each start");
    if (start == 1) {
      clients[0]->report_own_error("bad input");
      EXPECT_THROW(clients[1]->barrier("b", kLong), PeerFailure);
      coordinator.wait_for("bad input; waiting for the next start\n");
      continue;
    }
    std::thread other([&] { clients[1]->shutdown(); });
    clients[0]->shutdown();
    other.join();
    if (start == 0) coordinator.wait_for("all processes have left; waiting for the next start\n");
  }
  coordinator.signal(SIGTERM);
  const auto result = coordinator.wait();
  EXPECT_EQ(result.exit_code, 0) << result.log;
}

TEST(CoordinatorCommand, Keep_ContinuesWhenTheReaderOfItsOutputHasLeft) {
  const std::string script = "mkfifo lines; " LOCKSTEP_TOOL
                             " coordinator --num-processes 1 --keep > lines &"
                             " trap \"kill $!\" TERM;"
                             " head -1 lines;"
                             " wait $!;"
                             " echo status $?";
  testing::Processes coordinator({.program = "/bin/bash", .arguments = {"-c", script}});
  coordinator.wait_for_line(0, "of 1 process at 127.0.0.1:");
  const std::string log = coordinator.log(0);
  const std::size_t begin = log.find("127.", log.find("of 1 process at"));
  const std::string address = log.substr(begin, log.find('\n', begin) - begin);
  for (int start = 0; start < 2; ++start) connect(address, 1)[0]->shutdown();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // until it says that all have left
  connect(address, 1)[0]->shutdown();
  EXPECT_THAT(coordinator.log(0), Not(HasSubstr("status")));
  coordinator.kill(0, SIGTERM);  // the coordinator, too, which would stay
  coordinator.wait(0);
}

LOCKSTEP_CHILD(waits_to_be_let_go) {
  auto client = join();
  client->barrier("all", kLong);
  testing::say("joined");
  while (access("go", F_OK) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  client->barrier("still all", kLong);
  client->shutdown();
}

TEST(RunJob, StoppedForLongerThanTheHeartbeatTimeout_GoesOn) {
  Processes job(tool(Words{"run", "-n", "2", "--heartbeat-timeout", "2", "--"} +
                     testing::command_of_child("waits_to_be_let_go")));
  for (const char* process : {"[0]", "[1]"}) job.wait_for_line(0, std::string(process) + " joined");
  job.kill(0, SIGTSTP);  // As Ctrl-Z does; then fg.
  std::this_thread::sleep_for(std::chrono::milliseconds(3500));
  job.kill(0, SIGCONT);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  std::ofstream(job.folder(0) / "go");
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 0) << result.log;
  EXPECT_EQ(result.log.find("lockstep:"), std::string::npos);
}

TEST(CoordinatorCommand, PortInUseAndUsageErrors_AreReportedInOneLine) {
  Coordinator coordinator({"--num-processes", "1"});
  auto result = Coordinator({"--num-processes", "1", "--bind", coordinator.address()}).wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.log, AllOf(HasSubstr("the port is in use"), ::testing::EndsWith("\n")));
  for (const Words& wrong :
       std::vector<Words>{{}, {"--num-processes", "0"}, {"--num-processes", "2", "more"}}) {
    result = Coordinator(wrong).wait();
    EXPECT_EQ(result.exit_code, 2) << result.log;
    EXPECT_EQ(std::count(result.log.begin(), result.log.end(), '\n'), 1) << result.log;
  }
}

}  // namespace
}  // namespace lockstep::cli
