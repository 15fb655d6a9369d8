// SPDX-License-Identifier: Apache-2.0
#include "cli/stacks/stacks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "cli/base/signals.h"
#include "cli/hosts/local_host.h"
#include "cli/stacks/merge.h"
#include "cli/stacks/print.h"
#include "cli/stacks/snapshot.h"
#include "cli/testing/tool.h"
#include "lockstep/testing/processes.h"

// Stacks of real processes, which are children of this test's and have functions of known names.

namespace stacks_test {

// Each calls what follows as no last call, and is not inlined, so that it is in the stack.
[[gnu::noinline]] void spins_here() {
  while (true) asm volatile("");
}

[[gnu::noinline]] void sleeps_here() {
  const timespec long_time{.tv_sec = 1000, .tv_nsec = 0};
  while (true) clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, nullptr);
}

[[gnu::noinline]] void reads_here() {
  int ends[2];
  char byte;
  if (pipe(ends) != 0) std::abort();
  if (read(ends[0], &byte, 1) != 1) std::abort();
}

[[gnu::noinline]] void waits_on_a_futex_here() {
  int word = 0;
  while (true) syscall(SYS_futex, &word, FUTEX_WAIT, 0, nullptr, nullptr, 0);
}

[[gnu::noinline]] void runs(const std::string& what) {
  if (what == "spins") spins_here();
  if (what == "sleeps") sleeps_here();
  if (what == "reads") reads_here();
  if (what == "futex") waits_on_a_futex_here();
  std::abort();
}

// Waits as one whose child runs in its memory, which no signal and no tracer can interrupt.
[[gnu::noinline]] void waits_for_a_child_in_its_memory() {
  if (vfork() != 0) return;
  while (access("go_on", F_OK) != 0) {
    const timespec a_moment{.tv_sec = 0, .tv_nsec = 5'000'000};
    syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &a_moment, nullptr);
  }
  _exit(0);
}

}  // namespace stacks_test

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Processes;
using testing::ProcessResult;
using testing::say;

constexpr std::chrono::seconds kLong(30);

bool comes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

const ThreadStack& main_thread(const ProcessStacks& stacks) {
  for (const ThreadStack& thread : stacks.threads) {
    if (thread.main) return thread;
  }
  throw std::runtime_error("no main thread");
}

/// From the innermost on.
std::vector<std::string> functions_of(const ThreadStack& thread) {
  std::vector<std::string> functions;
  for (const Frame& frame : thread.frames) functions.push_back(frame.function);
  return functions;
}

bool is_in(const std::string& function, const ProcessStacks& stacks) {
  const auto functions = functions_of(main_thread(stacks));
  return std::find(functions.begin(), functions.end(), function) != functions.end();
}

bool is_free(int pid) {
  const watch::ProcessState state = watch::read_process_state(pid);
  return state.tracer == 0 &&
         std::none_of(state.threads.begin(), state.threads.end(),
                      [](const watch::ThreadState& thread) { return thread.state == 't'; });
}

/// Takes stacks until the main thread is in this function and waits, where it does, for it may be on the way
/// there.
ProcessStacks stacks_once_in(int pid, const std::string& function, char state) {
  ProcessStacks stacks;
  EXPECT_TRUE(comes_true([&] {
    stacks = take_stacks(pid);
    return is_in(function, stacks) && main_thread(stacks).state.state == state;
  })) << function;
  return stacks;
}

/// The tool is no ancestor of this process, and Yama may ask for that.
void let_anyone_trace() { prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); }

LOCKSTEP_CHILD(runs_what_it_is_told) {
  let_anyone_trace();
  say("ready");
  stacks_test::runs(testing::child_arguments().at(0));
}

struct Case {
  const char* what;
  const char* function;
  char state;
  std::set<long> syscalls;  ///< One of them; -1 is none.
};

TEST(Stacks, EachKindOfWait_HasItsFunctionStateAndSystemCall) {
  for (const Case& one :
       {Case{"spins", "stacks_test::spins_here", 'R', {-1}},
        Case{"sleeps", "stacks_test::sleeps_here", 'S', {SYS_clock_nanosleep, SYS_restart_syscall}},
        Case{"reads", "stacks_test::reads_here", 'S', {SYS_read}},
        Case{"futex", "stacks_test::waits_on_a_futex_here", 'S', {SYS_futex}}}) {
    Processes child({.child = "runs_what_it_is_told", .arguments = {one.what}});
    child.wait_for_line(0, "ready");
    const ProcessStacks stacks = stacks_once_in(child.pid(0), one.function, one.state);
    EXPECT_EQ(stacks.refused, "");
    const ThreadStack& thread = main_thread(stacks);
    EXPECT_EQ(thread.missing, "");
    EXPECT_THAT(one.syscalls, Contains(thread.state.syscall.value_or(-1))) << one.what;
    EXPECT_THAT(functions_of(thread),
                AllOf(Contains("stacks_test::runs"), Contains("main"), Contains("_start")));
    for (const Frame& frame : thread.frames) {
      EXPECT_EQ(frame.of_program, !frame.module.starts_with("libc.so")) << frame.module;
    }
    EXPECT_TRUE(is_free(child.pid(0)));
  }
}

TEST(Stacks, AStoppedProcess_StaysStopped) {
  Processes child({.child = "runs_what_it_is_told", .arguments = {"spins"}});
  child.wait_for_line(0, "ready");
  stacks_once_in(child.pid(0), "stacks_test::spins_here", 'R');
  child.kill(0, SIGSTOP);
  ASSERT_TRUE(comes_true([&] { return watch::read_process_state(child.pid(0)).state == 'T'; }));
  for (int i = 0; i < 3; ++i) {
    const ProcessStacks stacks = take_stacks(child.pid(0));
    EXPECT_THAT(functions_of(main_thread(stacks)), Contains("stacks_test::spins_here"));
    EXPECT_EQ(describe(main_thread(stacks).state), "stopped");
    EXPECT_EQ(watch::read_process_state(child.pid(0)).state, 'T');
  }
  EXPECT_TRUE(is_free(child.pid(0)));
  child.kill(0, SIGCONT);
  EXPECT_TRUE(comes_true([&] { return watch::read_process_state(child.pid(0)).state == 'R'; }));
}

std::atomic<int> signals_heard = 0;

std::uint64_t adds_up(std::uint64_t from) {
  std::uint64_t sum = from;
  for (int i = 0; i < 100'000; ++i) sum = sum * 6364136223846793005u + 1442695040888963407u;
  return sum;
}

// Works in several threads until it is told that it is enough, and says how many signals it heard.
LOCKSTEP_CHILD(adds_up_in_threads) {
  let_anyone_trace();
  struct sigaction action {};
  action.sa_handler = [](int) { ++signals_heard; };
  sigaction(SIGRTMIN, &action, nullptr);
  std::atomic<bool> enough = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      const std::uint64_t right = adds_up(i);
      while (!enough) EXPECT_EQ(adds_up(i), right);
    });
  }
  say("ready");
  while (!std::filesystem::exists("enough")) {
    std::thread([] { EXPECT_EQ(adds_up(7), adds_up(7)); }).join();  // threads come and go, too
    const timespec a_moment{.tv_sec = 0, .tv_nsec = 1'000'000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &a_moment, nullptr);
  }
  enough = true;
  for (std::thread& thread : threads) thread.join();
  say("heard " + std::to_string(signals_heard) + " signals");
}

// Signals that come while it stands still are not lost: each of these is queued, and counted.
TEST(Stacks, TakenAHundredTimes_DoNotDisturbAProcess) {
  Processes child({.child = "adds_up_in_threads"});
  child.wait_for_line(0, "ready");
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(sigqueue(child.pid(0), SIGRTMIN, {}), 0);
    if (i % 10 == 0) {
      const ProcessStacks stacks = take_stacks(child.pid(0));
      EXPECT_EQ(stacks.refused, "");
      EXPECT_GE(stacks.threads.size(), 4u);
    } else {
      EXPECT_GE(take_snapshot(child.pid(0), kLong).threads.size(), 4u);
    }
  }
  std::ofstream(child.folder(0) / "enough") << "";
  const ProcessResult result = child.wait(0);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, HasSubstr("heard 100 signals\n"));
}

LOCKSTEP_CHILD(takes_snapshots_for_ever) {
  const int pid = std::atoi(testing::child_arguments().at(0).c_str());
  say("ready");
  while (true) take_snapshot(pid, kLong);
}

TEST(Stacks, AKilledTool_LeavesNoThreadStopped) {
  Processes child({.child = "adds_up_in_threads"});
  child.wait_for_line(0, "ready");
  for (int i = 0; i < 5; ++i) {
    Processes tool({.child = "takes_snapshots_for_ever", .arguments = {std::to_string(child.pid(0))}});
    tool.wait_for_line(0, "ready");
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * i));  // another moment each time
    tool.kill(0, SIGKILL);
    tool.wait(0);
    EXPECT_TRUE(comes_true([&] { return is_free(child.pid(0)); }));
  }
  std::ofstream(child.folder(0) / "enough") << "";
  EXPECT_EQ(child.wait(0).exit_code, 0);
}

LOCKSTEP_CHILD(cannot_be_interrupted) {
  std::thread([] { stacks_test::sleeps_here(); }).detach();
  say("ready");
  stacks_test::waits_for_a_child_in_its_memory();
  say("went on");
  std::_Exit(0);
}

TEST(Stacks, AThreadThatDoesNotStop_IsPassedOver) {
  Processes child({.child = "cannot_be_interrupted"});
  child.wait_for_line(0, "ready");
  ASSERT_TRUE(comes_true([&] {
    const watch::ProcessState state = watch::read_process_state(child.pid(0));
    return state.state == 'D' && state.threads.size() == 2 && state.threads[1].syscall == SYS_clock_nanosleep;
  }));
  const ProcessStacks stacks = take_stacks(child.pid(0), {.limit = kLong});
  EXPECT_EQ(main_thread(stacks).missing, "it did not stop to be looked at");
  EXPECT_THAT(main_thread(stacks).frames, IsEmpty());
  EXPECT_THAT(describe(main_thread(stacks).state), HasSubstr("waiting for a disk or driver"));
  ASSERT_EQ(stacks.threads.size(), 2u);
  EXPECT_THAT(functions_of(stacks.threads[1]), Contains("stacks_test::sleeps_here"));
  EXPECT_TRUE(comes_true([&] { return is_free(child.pid(0)); }));
  std::ofstream(child.folder(0) / "go_on") << "";
  EXPECT_EQ(child.wait(0).exit_code, 0);
  EXPECT_THAT(child.log(0), HasSubstr("went on"));
}

#if defined(__x86_64__)
// As code that XLA generates: with a frame pointer, and nobody knows its name.
LOCKSTEP_CHILD(runs_generated_code) {
  // push rbp; mov rbp, rsp; call rdi; pop rbp; ret
  constexpr unsigned char kCode[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
  constexpr int kWritable = PROT_READ | PROT_WRITE, kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS;
  char* place = nullptr;
  const int program = open("/proc/self/exe", O_RDONLY);
  const bool in_a_hole = testing::child_arguments().at(0) == "between two mappings of the program";
  if (in_a_hole) {
    place = static_cast<char*>(mmap(nullptr, 3 * 4096, PROT_READ, MAP_PRIVATE, program, 0)) + 4096;
  }
  void* code = mmap(place, 4096, kWritable, in_a_hole ? kAnonymous | MAP_FIXED : kAnonymous, -1, 0);
  std::memcpy(code, kCode, sizeof kCode);
  mprotect(code, 4096, PROT_READ | PROT_EXEC);
  say("ready");
  reinterpret_cast<void (*)(void (*)())>(code)(&stacks_test::spins_here);
}

TEST(Stacks, FramesBelowGeneratedCode_AreFound) {
  for (const char* place : {"anywhere", "between two mappings of the program"}) {
    SCOPED_TRACE(place);
    Processes child({.child = "runs_generated_code", .arguments = {place}});
    child.wait_for_line(0, "ready");
    const ProcessStacks stacks = stacks_once_in(child.pid(0), "stacks_test::spins_here", 'R');
    const std::string text = print_stacks(merge_stacks(std::vector{NumberedStacks{0, stacks}}, false), {});
    const std::vector<Frame>& frames = main_thread(stacks).frames;
    const auto generated = std::find_if(frames.begin(), frames.end(), [](const Frame& frame) {
      return frame.function.empty() && frame.module.empty() && !frame.of_program;
    });
    ASSERT_NE(generated, frames.end()) << text;
    EXPECT_EQ((generated - 1)->function, "stacks_test::spins_here");
    EXPECT_THAT(functions_of(main_thread(stacks)), Contains("main"));
    EXPECT_THAT(text, HasSubstr("... 1 frame in generated code\n"));
  }
}
#endif

LOCKSTEP_CHILD(cannot_be_dumped) {
  prctl(PR_SET_DUMPABLE, 0);  // refuses all but root
  say("ready");
  stacks_test::runs("sleeps");
}

LOCKSTEP_CHILD(takes_stacks_without_permission) {
  constexpr uid_t kNobody = 65534;
  const int pid = std::atoi(testing::child_arguments().at(0).c_str());
  if (geteuid() == 0) {
    ASSERT_EQ(setuid(kNobody), 0);
  }
  const ProcessStacks stacks = take_stacks(pid);
  EXPECT_THAT(stacks.refused, AllOf(Not(IsEmpty()), HasSubstr("root")));
  EXPECT_THAT(main_thread(stacks).frames, IsEmpty());
  EXPECT_EQ(main_thread(stacks).state.state, 'S');
  const std::string text = print_stacks(merge_stacks(std::vector{NumberedStacks{4, stacks}}, false), {});
  EXPECT_THAT(text, AllOf(HasSubstr("No stacks of process 4 (pid " + std::to_string(pid) + "): "),
                          HasSubstr(" (main) "), HasSubstr(" waiting"), HasSubstr(" s of CPU time\n")));
}

TEST(Stacks, WithoutPermission_TheThreadsStatesAreReported) {
  Processes child({.child = "cannot_be_dumped"});
  child.wait_for_line(0, "ready");
  ASSERT_TRUE(comes_true([&] { return watch::read_process_state(child.pid(0)).state == 'S'; }));
  const ProcessResult result = testing::run_processes(
      {.child = "takes_stacks_without_permission", .arguments = {std::to_string(child.pid(0))}})[0];
  EXPECT_EQ(result.exit_code, 0);
}

// A launcher that takes stacks of its own children in another thread, while it waits for their ends.

LOCKSTEP_CHILD(ends_when_told) {
  signal(SIGTERM, [](int) { _exit(10 + std::atoi(std::getenv("LOCKSTEP_PROCESS_ID"))); });
  std::thread([] {
    while (true) std::thread([] {}).join();
  }).detach();
  say("ready");
  stacks_test::sleeps_here();
}

class Heard : public HostListener {
 public:
  std::map<int, pid_t> pids;
  std::atomic<int> ready = 0;
  std::map<int, std::vector<Outcome>> outcomes;

  void started(int process, pid_t pid, const std::vector<int>&) override { pids[process] = pid; }
  void output(int, Stream, std::string_view bytes) override {
    if (bytes.find("ready") != std::string_view::npos) ++ready;
  }
  void output_ended(int, Stream) override {}
  void ended(int process, const Outcome& outcome) override { outcomes[process].push_back(outcome); }
  void not_started(int, const std::string& what) override { ADD_FAILURE() << what; }
  void unreachable(const std::string&, const std::string& why) override { ADD_FAILURE() << why; }
  void reported(watch::ProcessReport) override {}
  void traced(TraceChunk) override {}
  void stacks_taken(int, ProcessStacks) override {}
  void remark(const std::string&) override {}
};

LOCKSTEP_CHILD(launches_and_takes_stacks) {
  constexpr int kProcesses = 6, kTaken = 200;
  Signals signals;
  Descendants descendants;
  Heard heard;
  LocalHost host(heard, descendants, false);
  HostJob job;
  job.command = testing::command_of_child("ends_when_told");
  job.bind = false;
  job.on_host = kProcesses;
  for (int i = 0; i < kProcesses; ++i)
    job.processes.push_back({.number = i, .variables = {{"LOCKSTEP_PROCESS_ID", std::to_string(i)}}});
  host.start(job);

  std::atomic<int> taken = 0;
  std::thread taker([&] {
    while (heard.ready < kProcesses) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    int next_to_end = 0;
    for (int i = 0; i < kTaken; ++i) {
      // Now and then one of them ends, by itself or killed, just when it is looked at.
      const bool ends_one = i % 30 == 29 && next_to_end < kProcesses;
      const int process = ends_one ? next_to_end++ : i % kProcesses;
      if (ends_one) kill(heard.pids[process], process % 2 == 0 ? SIGTERM : SIGKILL);
      const pid_t pid = heard.pids[process];
      if (i % 10 == 0)
        take_stacks(pid);
      else
        EXPECT_TRUE(take_snapshot(pid, kLong).error == 0 || process <= next_to_end) << process;
      ++taken;
    }
    for (; next_to_end < kProcesses; ++next_to_end) kill(heard.pids[next_to_end], SIGTERM);
  });
  while (host.open()) {
    std::vector<pollfd> polled;
    host.add_polled(polled);
    const std::size_t of_host = polled.size();
    polled.push_back({signals.descriptor(), POLLIN, 0});
    poll(polled.data(), polled.size(), 100);
    signals.take();
    host.work(std::span(polled).first(of_host));
  }
  taker.join();
  EXPECT_EQ(taken, kTaken);
  for (int process = 0; process < kProcesses; ++process) {
    ASSERT_EQ(heard.outcomes[process].size(), 1u) << process;
    const Outcome& outcome = heard.outcomes[process][0];
    const bool killed = process % 2 == 1;
    EXPECT_EQ(outcome.signal, killed ? SIGKILL : 0) << process;
    EXPECT_EQ(outcome.exit_code, killed ? 0 : 10 + process) << process;
  }
}

TEST(Stacks, ALauncherThatTakesThem_SeesEveryProcessEndOnce) {
  const ProcessResult result = testing::run_processes(
      {.child = "launches_and_takes_stacks", .deadline = std::chrono::seconds(100)})[0];
  EXPECT_EQ(result.exit_code, 0);
}

TEST(Stacks, TheTool_PrintsThemMerged) {
  Processes children({.count = 3, .child = "runs_what_it_is_told", .arguments = {"futex"}});
  Processes other({.child = "runs_what_it_is_told", .arguments = {"spins"}});
  std::string pids = std::to_string(other.pid(0));
  stacks_once_in(other.pid(0), "stacks_test::spins_here", 'R');
  for (int i = 0; i < 3; ++i) {
    stacks_once_in(children.pid(i), "stacks_test::waits_on_a_futex_here", 'S');
    pids += "," + std::to_string(children.pid(i));
  }
  const ProcessResult result = lockstep(Words{"stacks", "--pid", pids});
  EXPECT_EQ(result.exit_code, 0);
  const std::vector<std::string> lines = lines_of(result.log);
  ASSERT_GE(lines.size(), 9u);
  EXPECT_THAT(lines[0], HasSubstr("Main threads: 4 processes: "));
  const auto line_of = [&](const std::string& text) {
    return std::find_if(lines.begin(), lines.end(),
                        [&](const std::string& line) { return line.find(text) != std::string::npos; });
  };
  ASSERT_NE(line_of("stacks_test::runs"), lines.end());
  EXPECT_LT(line_of("stacks_test::runs"), line_of("+- 1 process: " + std::to_string(other.pid(0))));
  EXPECT_LT(line_of("stacks_test::spins_here"), line_of("+- 3 processes: "));
  EXPECT_LT(line_of("+- 3 processes: "), line_of("stacks_test::waits_on_a_futex_here"));
  EXPECT_NE(line_of("= waiting in futex"), lines.end());
  EXPECT_NE(line_of("The stacks of 4 processes took "), lines.end());
}

TEST(Stacks, TheTool_SaysWhichProcessHasEnded) {
  const pid_t pid = _Fork();
  if (pid == 0) _exit(0);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  const ProcessResult result = lockstep(Words{"stacks", "--pid", std::to_string(pid)});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.log, "1 process has ended: " + std::to_string(pid) + "\n");
}

}  // namespace
}  // namespace lockstep::cli
