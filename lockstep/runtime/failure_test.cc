// SPDX-License-Identifier: Apache-2.0
// Tests of how a process notices the end of another one outside of collectives: in shutdown(), in barriers,
// in its own code.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/host_name.h"
#include "lockstep/coordination/server/server.h"
#include "lockstep/pjrt/plugin.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/failure_watch.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/processes.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::error_of;
using testing::first_line;
using ::testing::HasSubstr;
using testing::Processes;
using testing::ProcessesOptions;
using testing::run_processes;
using testing::say;

ProcessesOptions job(const std::string& child, int processes) {
  return {.count = processes, .child = child, .coordinator = true};
}

/// The coordinator stands in process 0, as without a launcher.
ProcessesOptions job_held_by_process_0(const std::string& child, int processes) {
  int port = 0;
  {
    coordination::CoordinationServer probe;
    probe.start({});
    port = probe.port();
  }
  return {.count = processes,
          .child = child,
          .env = {{"LOCKSTEP_COORDINATOR_ADDRESS", "127.0.0.1:" + std::to_string(port)},
                  {"LOCKSTEP_NUM_PROCESSES", std::to_string(processes)}},
          .env_of = [](int i) {
            return testing::Variables{{"LOCKSTEP_PROCESS_ID", std::to_string(i)}};
          }};
}

/// The text after "said: " in a log, to the line's end.
std::string said(const std::string& log) {
  const auto begin = log.find("said: ");
  return begin == log.npos ? "nothing was said" : first_line(log.substr(begin + 6));
}

std::string name(Processes& processes, int i) {
  return "process " + std::to_string(i) + " (host " + host_name() + ", pid " +
         std::to_string(processes.pid(i)) + ")";
}

/// Waits in the way that the first argument names until the job fails; the last process only sleeps.
LOCKSTEP_CHILD(waits_for_the_last) {
  initialize();
  const std::string how = testing::child_arguments().at(0);
  coordination::CoordinationClient& client = *runtime::Runtime::existing()->coordination();
  client.barrier("all have met", seconds(30));  // So that all are connected, or soon are.
  std::this_thread::sleep_for(milliseconds(500));
  say("ready");
  if (process_index() == process_count() - 1) std::this_thread::sleep_for(seconds(60));
  say("said: " + error_of<PeerFailure>([&] {
        if (how == "shutdown") shutdown();
        if (how == "barrier") client.barrier("never", seconds(60));
        if (how == "key") client.key_value_store().get("never", seconds(60));
        if (how == "own code")
          for (;;) runtime::Runtime::existing()->check_healthy(true);
      }));
}

/// Leaves the job some time after it has failed.
LOCKSTEP_CHILD(leaves_late) {
  initialize();
  runtime::Runtime::existing()->coordination()->barrier("all have met", seconds(30));
  std::this_thread::sleep_for(milliseconds(500));
  say("ready");
  if (process_index() == 1) std::this_thread::sleep_for(seconds(60));
  std::this_thread::sleep_for(seconds(2));
  say("said: " + error_of<PeerFailure>([] { shutdown(); }));
}

TEST(Shutdown, AfterTheJobHasFailed_ThrowsTheCause) {
  Processes processes(job("leaves_late", 2));
  for (int i = 0; i < 2; ++i) processes.wait_for_line(i, "ready");
  processes.kill(1, SIGKILL);
  const auto results = processes.wait();
  EXPECT_EQ(said(results[0].log), name(processes, 1) + " died: its connections closed") << results[0].log;
  EXPECT_THAT(results[0].log, HasSubstr("\nconsequence: shutdown ended in process 0 of 2"));
}

class DeathOfAPeer : public ::testing::TestWithParam<const char*> {};

TEST_P(DeathOfAPeer, EndsTheWaitOfAllWithTheSameFirstLine) {
  for (bool held : {false, true}) {
    ProcessesOptions options =
        held ? job_held_by_process_0("waits_for_the_last", 3) : job("waits_for_the_last", 3);
    options.arguments = {GetParam()};
    Processes processes(options);
    for (int i = 0; i < 3; ++i) processes.wait_for_line(i, "ready");
    processes.kill(2, SIGKILL);
    const auto results = processes.wait();
    for (int i : {0, 1}) {
      EXPECT_EQ(said(results[i].log), name(processes, 2) + " died: its connections closed") << results[i].log;
      EXPECT_THAT(results[i].log, HasSubstr("\nconsequence: "));
      EXPECT_LT(results[i].ended_after - results[2].ended_after, testing::kAtOnce);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Waits, DeathOfAPeer, ::testing::Values("shutdown", "barrier", "key", "own code"),
                         [](const auto& info) {
                           return std::regex_replace(info.param, std::regex(" "), "_");
                         });

/// Process 1 finds a divergence and ends before it can tell the others itself.
LOCKSTEP_CHILD(one_diverges_and_ends) {
  initialize();
  coordination::CoordinationClient& client = *runtime::Runtime::existing()->coordination();
  client.barrier("all have met", seconds(30));
  if (process_index() == 1) {
    runtime::Runtime::existing()->report_divergence({1}, "it ran another program");
    std::_Exit(0);
  }
  say("said: " + error_of<DivergenceError>([&] {
        for (;;) {
          runtime::Runtime::existing()->check_healthy(true);
          std::this_thread::sleep_for(milliseconds(1));
        }
      }));
}

TEST(Divergence, OfAProcessThatHasEnded_IsThrownAsDivergenceErrorByTheOthers) {
  for (bool held : {false, true}) {
    Processes processes(held ? job_held_by_process_0("one_diverges_and_ends", 3)
                             : job("one_diverges_and_ends", 3));
    const auto results = processes.wait();
    for (int i : {0, 2})
      EXPECT_EQ(said(results[i].log), name(processes, 1) + " diverged: it ran another program")
          << results[i].log;
  }
}

LOCKSTEP_CHILD(only_initializes) {
  say("said: " + error_of<PeerFailure>([] { initialize(); }));
}

TEST(DeathInInitialize, BeforeThePeersAreConnected_IsToldToAllAtOnce) {
  ProcessesOptions options = job("only_initializes", 3);
  options.env_of = [](int process) {
    testing::Variables variables;
    if (process == 2) {
      variables = {{"GPU_ON_CPU_BEHIND", pjrt::find_plugin()},
                   {"LOCKSTEP_PJRT_PLUGIN", GPU_ON_CPU_PLUGIN},
                   {"GPU_ON_CPU_DIES", "1"}};
    }
    return variables;
  };
  Processes processes(options);
  const auto results = processes.wait();
  EXPECT_EQ(results[2].signal, SIGKILL);
  for (int i : {0, 1})
    EXPECT_EQ(said(results[i].log), name(processes, 2) + " died: its connections closed") << results[i].log;
}

LOCKSTEP_CHILD(waits_for_process_0) {
  initialize();
  coordination::CoordinationClient& client = *runtime::Runtime::existing()->coordination();
  client.barrier("all have met", seconds(30));
  say("ready");
  if (process_index() == 0) std::this_thread::sleep_for(seconds(60));
  say("said: " + error_of<PeerFailure>([&] { client.barrier("never", seconds(60)); }));
}

TEST(DeathOfProcess0, IsReportedAsAnyOther_EvenIfItHeldTheCoordinator) {
  for (bool held : {false, true}) {
    Processes processes(held ? job_held_by_process_0("waits_for_process_0", 3)
                             : job("waits_for_process_0", 3));
    for (int i = 0; i < 3; ++i) processes.wait_for_line(i, "ready");
    processes.kill(0, SIGKILL);
    const auto results = processes.wait();
    for (int i : {1, 2}) {
      EXPECT_EQ(said(results[i].log), name(processes, 0) + " died: its connections closed") << results[i].log;
      EXPECT_LT(results[i].ended_after - results[0].ended_after, testing::kAtOnce);
    }
  }
}

/// Ends when all processes have come. Who fails next waits until the others know that: they would hear of the
/// failure here.
void meet(bool fails_next) {
  coordination::CoordinationClient& client = *runtime::Runtime::existing()->coordination();
  client.barrier("all have met", seconds(30));
  const auto key = [](int process) { return "has met: " + std::to_string(process); };
  client.key_value_store().set(key(process_index()), "");
  for (int i = 0; fails_next && i < process_count(); ++i) client.key_value_store().get(key(i), seconds(30));
}

/// Not what an uncaught error does in a test's child, which the harness catches: what it does in a program.
void uncaught(const std::function<void()>& body) { std::thread(body).join(); }

LOCKSTEP_CHILD(ends_badly) {
  initialize();
  const std::string how = testing::child_arguments().at(0);
  coordination::CoordinationClient& client = *runtime::Runtime::existing()->coordination();
  meet(process_index() == 1);
  if (process_index() == 1) {
    if (how == "exception") uncaught([] { throw std::runtime_error("no such file: weights\nsecond line"); });
    if (how == "exit") std::exit(3);
  }
  if (process_index() == 2) uncaught([&] { client.barrier("never", seconds(60)); });
  say("said: " + error_of<PeerFailure>([&] { client.barrier("never", seconds(60)); }));
}

TEST(EndWithAnError, IsReportedToTheOthersWithItsReason) {
  for (bool held : {false, true}) {
    for (const auto& [how, reason] :
         {std::pair("exception", "no such file: weights"), {"exit", "exit status 3"}}) {
      ProcessesOptions options = held ? job_held_by_process_0("ends_badly", 3) : job("ends_badly", 3);
      options.arguments = {how};
      Processes processes(options);
      const auto results = processes.wait();
      const std::string cause = name(processes, 1) + " ended with an error: " + reason;
      EXPECT_EQ(said(results[0].log), cause);
      EXPECT_THAT(results[2].log, HasSubstr("what():  " + cause + "\n"));
      EXPECT_EQ(results[2].signal, SIGABRT);
      EXPECT_EQ(results[1].exit_code, std::string(how) == "exit" ? 3 : -1);
      EXPECT_EQ(results[1].signal, std::string(how) == "exit" ? 0 : SIGABRT);
      for (int i : {0, 2}) EXPECT_LT(results[i].ended_after - results[1].ended_after, testing::kAtOnce);
    }
  }
}

LOCKSTEP_CHILD(keeps_its_terminate_handler) {
  std::set_terminate([] {
    say("the program's own handler");
    std::_Exit(9);
  });
  initialize();
  meet(process_index() == 0);
  if (process_index() == 0) uncaught([] { throw std::runtime_error("bad"); });
  say("said: " + error_of<PeerFailure>(
                     [] { runtime::Runtime::existing()->coordination()->barrier("never", seconds(60)); }));
}

TEST(TerminateHandlerOfTheProgram, ThatWasSetBefore_IsStillCalled) {
  Processes processes(job("keeps_its_terminate_handler", 2));
  const auto results = processes.wait();
  EXPECT_EQ(results[0].exit_code, 9);
  EXPECT_THAT(results[0].log, HasSubstr("the program's own handler"));
  EXPECT_EQ(said(results[1].log), name(processes, 0) + " ended with an error: bad");
}

LOCKSTEP_CHILD(returns_from_main) {
  initialize();
  if (testing::child_arguments().at(0) == "shutdown") shutdown();
}

TEST(ReturningFromMainEverywhere, IsSilent) {
  for (const char* how : {"shutdown", "no shutdown"}) {
    for (bool held : {false, true}) {
      ProcessesOptions options =
          held ? job_held_by_process_0("returns_from_main", 3) : job("returns_from_main", 3);
      options.arguments = {how};
      options.env["LOCKSTEP_LOG"] = "warning";
      if (held) options.env["LOCKSTEP_JOB_SECRET"] = "0123456789abcdef";  // It warns of a job without one.
      for (const auto& result : run_processes(options)) {
        EXPECT_EQ(result.exit_code, 0);
        EXPECT_EQ(result.log, "");
      }
    }
  }
}

LOCKSTEP_CHILD(has_a_policy) {
  const std::string policy = testing::child_arguments().at(0);
  InitializeOptions options;
  if (policy == "exit") options.on_peer_failure = OnPeerFailure::kExit;
  if (policy == "callback") {
    options.on_peer_failure = [](const PeerFailure& failure) { say(std::string("said: ") + failure.what()); };
  }
  if (policy == "callback that throws") {
    options.on_peer_failure = [](const PeerFailure&) { throw std::runtime_error("thrown by the callback"); };
  }
  initialize(options);
  runtime::Runtime::existing()->coordination()->barrier("all have met", seconds(30));
  if (process_index() == 1) {
    std::this_thread::sleep_for(milliseconds(500));  // So that the other knows it.
    std::_Exit(0);
  }
  std::this_thread::sleep_for(policy.find("exit") != policy.npos ? seconds(60) : seconds(3));
  shutdown();  // Not in vain: it says good-bye to the coordinator, and does not wait for the others.
}

TEST(OnPeerFailure, Exit_EndsAProcessThatIsInItsOwnCode) {
  for (const char* how : {"exit", "exit by variable"}) {
    ProcessesOptions options = job("has_a_policy", 2);
    options.arguments = {how};
    if (std::string(how) != "exit") options.env["LOCKSTEP_ON_PEER_FAILURE"] = "exit";
    Processes processes(options);
    const auto results = processes.wait();
    EXPECT_EQ(results[0].exit_code, 1);
    EXPECT_LT(results[0].ended_after - results[1].ended_after, testing::kAtOnce);
    EXPECT_THAT(results[0].log, HasSubstr(name(processes, 1) +
                                          " died: its connections closed; this process exits with status 1"));
  }
}

TEST(OnPeerFailure, Callback_IsCalledWhileTheProcessIsInItsOwnCode) {
  ProcessesOptions options = job("has_a_policy", 2);
  options.arguments = {"callback"};
  Processes processes(options);
  processes.wait_for_line(0, "said: ");
  EXPECT_TRUE(processes.running(0));
  const auto results = processes.wait();
  EXPECT_EQ(said(results[0].log), name(processes, 1) + " died: its connections closed");
  options.arguments = {"callback that throws"};
  EXPECT_THAT(run_processes(options)[0].log, HasSubstr("on_peer_failure threw: thrown by the callback"));
}

TEST(OnPeerFailure, Variable_IsThrowOrExit_AndTheArgumentWins) {
  const MapEnvironment wrong(testing::Variables{{"LOCKSTEP_ON_PEER_FAILURE", "panic"}});
  EXPECT_EQ(error_of<InitializationError>([&] { runtime::peer_failure_policy({}, wrong); }),
            "[initialize] LOCKSTEP_ON_PEER_FAILURE is 'panic': expected throw or exit");
  const MapEnvironment exits(testing::Variables{{"LOCKSTEP_ON_PEER_FAILURE", "exit"}});
  EXPECT_EQ(std::get<OnPeerFailure>(runtime::peer_failure_policy({}, exits)), OnPeerFailure::kExit);
  EXPECT_EQ(std::get<OnPeerFailure>(
                runtime::peer_failure_policy({.on_peer_failure = OnPeerFailure::kThrow}, exits)),
            OnPeerFailure::kThrow);
}

/// With a heartbeat timeout of 2 s.
LOCKSTEP_CHILD(is_long_in_its_own_code) {
  initialize();
  if (process_index() == 0) {
    const auto end = std::chrono::steady_clock::now() + seconds(4);
    while (std::chrono::steady_clock::now() < end) {
    }
    std::this_thread::sleep_for(seconds(3));
  }
  shutdown();
}

ProcessesOptions with_heartbeats_of_2_s(coordination::CoordinationServer& server, const std::string& child,
                                        int n) {
  server.start({.num_processes = n, .heartbeat_timeout = seconds(2)});
  return {.count = n,
          .child = child,
          .env = {{"LOCKSTEP_LAUNCHER", "1"},
                  {"LOCKSTEP_COORDINATOR_ADDRESS", server.address()},
                  {"LOCKSTEP_HEARTBEAT_TIMEOUT", "2"},
                  {"LOCKSTEP_NUM_PROCESSES", std::to_string(n)}},
          .env_of = [](int i) {
            return testing::Variables{{"LOCKSTEP_PROCESS_ID", std::to_string(i)}};
          }};
}

TEST(LongHostCode, IsNotTakenForADeath) {
  coordination::CoordinationServer server;
  for (const auto& result : run_processes(with_heartbeats_of_2_s(server, "is_long_in_its_own_code", 2))) {
    EXPECT_EQ(result.exit_code, 0) << result.log;
  }
}

LOCKSTEP_CHILD(returns_once_another_died) {
  static std::promise<void> failed;
  initialize({.on_peer_failure = [](const PeerFailure&) { failed.set_value(); }});
  runtime::Runtime::existing()->coordination()->barrier("all have met", seconds(30));
  if (process_index() == 1) std::_Exit(0);
  failed.get_future().wait();
}

TEST(EndOfTheProgram, ReportsAFailureThatNoCallHasThrown) {
  coordination::CoordinationServer server;
  Processes processes(with_heartbeats_of_2_s(server, "returns_once_another_died", 2));
  const auto results = processes.wait();
  EXPECT_THAT(results[0].log,
              HasSubstr("while leaving the job at the end of the program: " + name(processes, 1)));
}

LOCKSTEP_CHILD(waits_for_one_that_is_stopped) {
  initialize();
  coordination::CoordinationClient& client = *runtime::Runtime::existing()->coordination();
  client.barrier("all have met", seconds(30));
  say("ready");
  say("said: " + error_of<PeerFailure>([&] {
        for (;;) {
          runtime::Runtime::existing()->check_healthy(true);
          std::this_thread::sleep_for(milliseconds(1));
        }
      }));
}

TEST(StoppedProcess, IsNamedAsSilent_AndFailsWhenItContinues) {
  coordination::CoordinationServer server;
  Processes processes(with_heartbeats_of_2_s(server, "waits_for_one_that_is_stopped", 3));
  for (int i = 0; i < 3; ++i) processes.wait_for_line(i, "ready");
  processes.kill(1, SIGSTOP);
  const std::string cause = name(processes, 1) + " died: no heartbeat for 2 s";
  for (int i : {0, 2}) EXPECT_EQ(said(processes.wait(i).log), cause);
  processes.kill(1, SIGCONT);
  const std::string log = processes.wait(1).log;
  EXPECT_THAT(log, HasSubstr("said: "));
  EXPECT_THAT(log, HasSubstr(cause));
}

TEST(FailureWatch, AfterTheGrace_DecidesForTheFirstFailureSeen) {
  std::string decided;
  {
    runtime::FailureWatch watch(milliseconds(20), [&](const auto& error) { decided = error.message; });
    EXPECT_TRUE(watch.saw({"process 3 died", 3}));
    EXPECT_FALSE(watch.saw({"process 2 died", 2}));
    EXPECT_EQ(watch.first()->process, 3);
    std::this_thread::sleep_for(milliseconds(500));
  }
  EXPECT_EQ(decided, "process 3 died");
}

TEST(FailureWatch, OnceSettled_DecidesNothing) {
  bool decided = false;
  {
    runtime::FailureWatch watch(milliseconds(50), [&](const auto&) { decided = true; });
    EXPECT_TRUE(watch.saw({"process 3 died", 3}));
    watch.settle();
    EXPECT_FALSE(watch.saw({"process 2 died", 2}));
    std::this_thread::sleep_for(milliseconds(200));
  }
  EXPECT_FALSE(decided);
}

}  // namespace
}  // namespace lockstep
