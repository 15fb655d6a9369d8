// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/proc_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

namespace lockstep::watch {
namespace {

/// Whether it comes to hold within a time that is long on any machine.
bool comes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

ThreadState thread_named(const std::string& name) {
  for (const ThreadState& thread : read_process_state(getpid()).threads) {
    if (thread.name == name) return thread;
  }
  return {};
}

TEST(ProcState, TellsOfThisProcess) {
  const ProcessState state = read_process_state(getpid());
  EXPECT_TRUE(state.exists);
  EXPECT_EQ(state.parent, getppid());
  EXPECT_EQ(state.user, geteuid());
  EXPECT_EQ(state.tracer, 0);
  EXPECT_GT(state.rss_bytes, 1u << 20);
  EXPECT_GT(state.start_ticks, 0u);
  ASSERT_FALSE(state.threads.empty());
  EXPECT_EQ(state.threads[0].tid, getpid());
  EXPECT_EQ(state.threads[0].state, 'R');
  EXPECT_EQ(describe(state.threads[0]), "running");
  EXPECT_FALSE(state.threads[0].syscall);
}

TEST(ProcState, TellsWhatAThreadWaitsIn) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::thread reader([&] {
    prctl(PR_SET_NAME, "a) R (reader");  // a name may hold anything
    char byte;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
  });
  EXPECT_TRUE(comes_true([] { return thread_named("a) R (reader").syscall == SYS_read; }));
  const ThreadState thread = thread_named("a) R (reader");
  EXPECT_EQ(thread.state, 'S');
  EXPECT_EQ(describe(thread), "waiting in read");
  EXPECT_EQ(write(ends[1], "x", 1), 1);
  reader.join();
  close(ends[0]);
  close(ends[1]);
}

TEST(ProcState, CpuTimeOfAThreadGrowsWhileItRuns) {
  std::atomic<bool> enough = false;
  std::thread spinner([&] {
    prctl(PR_SET_NAME, "spinner");
    while (!enough) {
    }
  });
  EXPECT_TRUE(comes_true([] { return seconds_of_ticks(thread_named("spinner").cpu_ticks) >= 0.02; }));
  enough = true;
  spinner.join();
}

TEST(ProcState, AnEndedProcessIsToldOfUntilItIsReaped) {
  const pid_t pid = _Fork();
  if (pid == 0) _exit(0);
  EXPECT_TRUE(comes_true([&] { return read_process_state(pid).state == 'Z'; }));
  EXPECT_TRUE(read_process_state(pid).exists);
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  EXPECT_FALSE(read_process_state(pid).exists);
  EXPECT_TRUE(read_process_state(pid).threads.empty());
}

TEST(ProcState, AStoppedProcessIsStopped) {
  const pid_t pid = _Fork();
  if (pid == 0) {
    for (;;) pause();
  }
  kill(pid, SIGSTOP);
  EXPECT_TRUE(comes_true([&] { return read_process_state(pid).state == 'T'; }));
  EXPECT_EQ(describe(read_process_state(pid).threads[0]), "stopped");
  kill(pid, SIGKILL);
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

TEST(ProcState, ThreadsThatEndMeanwhileAreLeftOut) {
  std::atomic<bool> enough = false;
  std::thread maker([&] {
    while (!enough) std::thread([] {}).join();
  });
  for (int i = 0; i < 200; ++i) {
    for (const ThreadState& thread : read_process_state(getpid()).threads) EXPECT_NE(thread.state, '?');
  }
  enough = true;
  maker.join();
}

TEST(ProcState, SystemCallsHaveNames) {
  EXPECT_EQ(syscall_name(SYS_futex), "futex");
  EXPECT_EQ(syscall_name(SYS_clock_nanosleep), "clock_nanosleep");
  EXPECT_EQ(syscall_name(99999), "system call 99999");
}

}  // namespace
}  // namespace lockstep::watch
