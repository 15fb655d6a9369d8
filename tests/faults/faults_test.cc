// SPDX-License-Identifier: Apache-2.0
// Kills and stops processes of jobs that train, and the coordinator, at random moments. Each time: nobody
// hangs, all survivors throw PeerFailure with the same first line, which names the right process, within
// their time, and nothing is left behind. The moments are the same in each run; LOCKSTEP_TEST_SEED=N gives
// others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lockstep/lockstep.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <set>
#include <thread>

#include "lockstep/base/host_name.h"
#include "lockstep/coordination/server/server.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/inventory.h"
#include "lockstep/testing/isolation.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/random.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AnyOf;
using testing::first_line;
using ::testing::HasSubstr;
using testing::Inventory;
using testing::Processes;
using testing::ProcessesOptions;
using testing::ProcessResult;
using testing::Random;
using testing::say;
using testing::Variables;

constexpr int kProcesses = 4;

constexpr milliseconds kHeartbeatTimeout(2000);

/// A step of a training run, with a sum over all devices in it, again and again until the job fails.
void train() {
  const Mesh mesh = make_mesh({{"data", device_count()}});
  auto step = jit([](Array w, Array x) {
    auto [value, gradient] = value_and_grad([&](Array w) { return mean(square(matmul(x, w))); })(w);
    return w - 0.01f * gradient;
  });
  Array w = device_put(ones({16, 4}), NamedSharding(mesh, P()));
  const std::vector<float> rows(static_cast<std::size_t>(8 * local_device_count()) * 16, 0.5f);
  Array x = make_array_from_process_local_data(NamedSharding(mesh, P("data")), rows, {8, 16});
  w = step(w, x);
  w.block_until_ready();
  say("training");
  for (;;) w = step(w, x);
}

LOCKSTEP_CHILD(trains_and_catches) {
  try {
    initialize();
    train();
  } catch (const PeerFailure& failure) {
    say(std::string("said: ") + failure.what() + "\nend");
    std::_Exit(0);
  }
}

/// In a thread, for the harness catches what a child throws.
LOCKSTEP_CHILD(trains_and_does_not_catch) {
  std::thread([] {
    initialize();
    train();
  }).join();
}

LOCKSTEP_CHILD(coordinates) {
  coordination::CoordinationServer server;
  server.start({.num_processes = std::stoi(testing::child_arguments().at(0))});
  say("at " + server.address() + " ");
  std::this_thread::sleep_for(std::chrono::hours(1));
}

std::string name_of(int process, pid_t pid) {
  return "process " + std::to_string(process) + " (host " + host_name() + ", pid " + std::to_string(pid) +
         ")";
}

/// A survivor's exception: as it said itself, or as C++ says of one that nobody caught.
std::string thrown_by(const std::string& log) {
  for (const std::string mark : {"said: ", "what():  "}) {
    if (const auto begin = log.find(mark); begin != log.npos) return log.substr(begin + mark.size());
  }
  return "nothing was thrown";
}

/// A port that nobody uses now, of this test's own network.
int free_port() {
  coordination::CoordinationServer server;
  server.start({});
  return server.port();
}

Variables explicit_start(const std::string& coordinator) {
  return {{"LOCKSTEP_COORDINATOR_ADDRESS", coordinator},
          {"LOCKSTEP_NUM_PROCESSES", std::to_string(kProcesses)},
          {"LOCKSTEP_HEARTBEAT_TIMEOUT", std::to_string(kHeartbeatTimeout.count() / 1000)},
          {"LOCKSTEP_NUM_CPU_DEVICES", "1"},
          {"NPROC", "1"}};
}

std::function<Variables(int)> numbers() {
  return [](int i) { return Variables{{"LOCKSTEP_PROCESS_ID", std::to_string(i)}}; };
}

class Faults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string reason = testing::isolate(); !reason.empty()) GTEST_SKIP() << reason;
    testing::adopt_orphans();
    before_ = Inventory::now();
  }

  /// The leftovers since `before_`. Folders of the test itself go when it ends.
  std::string left() const {
    std::string left, line;
    std::istringstream lines(left_over(before_, Inventory::now()));
    while (std::getline(lines, line)) {
      if (line.find("/lockstep-test-") == line.npos) left += line + "\n";
    }
    return left;
  }

  /// The kernel closes what a process had a moment after its end is known.
  void expect_nothing_left() const {
    const auto deadline = std::chrono::steady_clock::now() + testing::kAtOnce;
    while (!left().empty() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(left(), "");
  }

  /// One job of four, in which the coordinator stands in the test or in process 0. Gives how long after the
  /// fault the last survivor ended.
  milliseconds try_fault(Random& random, int signal, bool held_by_process_0, bool caught, int victim) {
    coordination::CoordinationServer server;
    std::string address = "127.0.0.1:" + std::to_string(held_by_process_0 ? free_port() : 0);
    Variables more;
    if (!held_by_process_0) {
      server.start({.num_processes = kProcesses, .heartbeat_timeout = kHeartbeatTimeout});
      address = server.address();
      more = {{"LOCKSTEP_LAUNCHER", "1"}};
    }
    more.merge(explicit_start(address));
    Processes processes({.count = kProcesses,
                         .child = caught ? "trains_and_catches" : "trains_and_does_not_catch",
                         .env = more,
                         .env_of = numbers()});
    for (int i = 0; i < kProcesses; ++i) processes.wait_for_line(i, "training");
    std::this_thread::sleep_for(random.within(milliseconds(100)));
    const auto at = std::chrono::steady_clock::now();
    processes.kill(victim, signal);

    const std::string cause =
        name_of(victim, processes.pid(victim)) +
        (signal == SIGKILL ? " died: its connections closed" : " died: no heartbeat for 2 s");
    for (int i = 0; i < kProcesses; ++i) {
      if (i == victim) continue;
      const ProcessResult result = processes.wait(i);
      EXPECT_FALSE(result.timed_out);
      EXPECT_EQ(first_line(thrown_by(result.log)), cause) << "process " << i << " said\n" << result.log;
      EXPECT_EQ(result.signal, caught ? 0 : SIGABRT);
    }
    const auto took = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - at);
    EXPECT_LT(took, testing::kAtOnce + (signal == SIGKILL ? milliseconds(0) : kHeartbeatTimeout));
    // It finds the others gone, or itself given up, and ends too.
    if (signal == SIGSTOP) {
      processes.kill(victim, SIGCONT);
      const ProcessResult result = processes.wait(victim);
      EXPECT_FALSE(result.timed_out);
      EXPECT_NE(thrown_by(result.log), "nothing was thrown");
    }
    processes.wait();
    server.stop();
    expect_nothing_left();
    return took;
  }

  void try_faults(int trials, int signal, bool held_by_process_0) {
    Random random;
    milliseconds longest(0);
    for (int trial = 0; trial < trials && !HasFailure(); ++trial) {
      // Each process in turn; process 0, where it holds the coordinator, has a test of its own.
      const int victim = held_by_process_0 ? 1 + trial % (kProcesses - 1) : trial % kProcesses;
      longest = std::max(longest, try_fault(random, signal, held_by_process_0, trial % 3 != 2, victim));
    }
    std::printf("%d faults; the last survivor ended %lld ms after one at the most\n", trials,
                static_cast<long long>(longest.count()));
  }

  Inventory before_;
};

TEST_F(Faults, KilledProcess_IsTheFirstCauseOnAllSurvivors) { try_faults(18, SIGKILL, false); }

TEST_F(Faults, KilledProcess_IsTheFirstCauseWhereProcess0HoldsTheCoordinator) {
  try_faults(10, SIGKILL, true);
}

TEST_F(Faults, KilledProcess0_IsTheFirstCauseWhereItHeldTheCoordinator) {
  Random random;
  for (int trial = 0; trial < 4 && !HasFailure(); ++trial)
    try_fault(random, SIGKILL, true, trial % 2 == 0, 0);
}

TEST_F(Faults, StoppedProcess_IsTheFirstCauseAfterTheHeartbeatTimeout) { try_faults(4, SIGSTOP, false); }

TEST_F(Faults, StoppedProcess0_IsTheFirstCauseWhereItHeldTheCoordinator) {
  Random random;
  for (int trial = 0; trial < 2 && !HasFailure(); ++trial) try_fault(random, SIGSTOP, true, true, 0);
}

TEST_F(Faults, KilledCoordinator_IsTheFirstCauseOnAll) {
  Random random;
  for (int trial = 0; trial < 3 && !HasFailure(); ++trial) {
    Processes coordinator({.child = "coordinates", .arguments = {std::to_string(kProcesses)}});
    coordinator.wait_for_line(0, " \n");
    std::string address = coordinator.log(0).substr(coordinator.log(0).find("at ") + 3);
    address.resize(address.find(' '));
    Variables more = {{"LOCKSTEP_LAUNCHER", "1"}};
    more.merge(explicit_start(address));
    Processes processes(
        {.count = kProcesses, .child = "trains_and_catches", .env = more, .env_of = numbers()});
    for (int i = 0; i < kProcesses; ++i) processes.wait_for_line(i, "training");
    std::this_thread::sleep_for(random.within(milliseconds(100)));
    coordinator.kill(0, SIGKILL);
    const auto at = std::chrono::steady_clock::now();
    std::set<std::string> causes;
    for (const ProcessResult& result : processes.wait()) causes.insert(first_line(thrown_by(result.log)));
    EXPECT_LT(std::chrono::steady_clock::now() - at, testing::kAtOnce);
    ASSERT_EQ(causes.size(), 1u) << ::testing::PrintToString(causes);
    EXPECT_THAT(
        *causes.begin(),
        ::testing::StartsWith("the coordinator at " + address + " (host " + host_name() + ", pid " +
                              std::to_string(coordinator.pid(0)) + ") is gone: its connections closed"));
    coordinator.wait();
    expect_nothing_left();
  }
}

#ifdef LOCKSTEP_TOOL
/// Kills itself, if it is the one, a moment after its start: before, while or after the processes meet.
LOCKSTEP_CHILD(kills_itself) {
  if (std::getenv("LOCKSTEP_PROCESS_ID") == testing::child_arguments().at(0)) {
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::microseconds(std::stoi(testing::child_arguments().at(1))));
      raise(SIGKILL);
    }).detach();
  }
  try {
    initialize();
    train();
  } catch (const PeerFailure& failure) {
    say("said: " + first_line(failure.what()));
    std::_Exit(0);
  }
}

TEST_F(Faults, KilledProcess_AtAnyMomentOfAJobOfTheLauncher_EndsTheJobAndIsNamed) {
  Random random;
  for (int trial = 0; trial < 10 && !HasFailure(); ++trial) {
    const int victim = random.below(kProcesses);
    const auto moment = random.within(milliseconds(700));
    std::vector<std::string> arguments = {"run", "-n", std::to_string(kProcesses), "--"};
    for (const std::string& word : testing::command_of_child(
             "kills_itself", {std::to_string(victim), std::to_string(moment.count())})) {
      arguments.push_back(word);
    }
    const ProcessResult result =
        testing::run_processes({.program = LOCKSTEP_TOOL, .arguments = arguments})[0];
    EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.log;
    EXPECT_LT(result.ended_after, moment + milliseconds(15000));
    const std::string cause = "process " + std::to_string(victim) + " (host " + host_name() + ", pid ";
    EXPECT_THAT(result.log, HasSubstr("the job failed: " + cause))
        << "killed after " << moment.count() << " us";
    EXPECT_THAT(result.log, HasSubstr("died: signal 9 (SIGKILL)"));
    // All that was said by survivors is that.
    for (auto at = result.log.find("said: "); at != result.log.npos; at = result.log.find("said: ", at + 1)) {
      EXPECT_EQ(result.log.compare(at + 6, cause.size(), cause), 0) << result.log;
      // The peers' word counts if the kernel takes longer than half a second to end the process.
      EXPECT_THAT(first_line(result.log.substr(at)),
                  AnyOf(HasSubstr("died: signal 9 (SIGKILL)"), HasSubstr("died: its connections closed")));
    }
    expect_nothing_left();
  }
}
#endif

}  // namespace
}  // namespace lockstep
