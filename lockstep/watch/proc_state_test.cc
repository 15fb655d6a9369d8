// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/proc_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
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

TEST(ProcState, OfThisProcess_HasItsParentUserMemoryAndThreads) {
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

TEST(ProcState, OfAWaitingThread_NamesTheSystemCall) {
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

TEST(ProcState, CpuTimeOfAThread_GrowsWhileItRuns) {
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

TEST(ProcState, AnEndedProcess_ExistsUntilItIsReaped) {
  const pid_t pid = _Fork();
  if (pid == 0) _exit(0);
  EXPECT_TRUE(comes_true([&] { return read_process_state(pid).state == 'Z'; }));
  EXPECT_TRUE(read_process_state(pid).exists);
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  EXPECT_FALSE(read_process_state(pid).exists);
  EXPECT_TRUE(read_process_state(pid).threads.empty());
}

TEST(ProcState, AStoppedProcess_IsReportedAsStopped) {
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

TEST(ProcState, ThreadsThatEndMeanwhile_AreLeftOut) {
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

TEST(ProcState, SystemCalls_HaveNames) {
  EXPECT_EQ(syscall_name(SYS_futex), "futex");
  EXPECT_EQ(syscall_name(SYS_clock_nanosleep), "clock_nanosleep");
  EXPECT_EQ(syscall_name(99999), "system call 99999");
}

/// A child that tells its pid and waits, in a pid namespace of its own where that is permitted.
class ChildInNamespace {
 public:
  ChildInNamespace() {
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0) std::abort();
    outer_ = fork();
    if (outer_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(to[1]);
      const bool may = unshare(geteuid() == 0 ? CLONE_NEWPID : CLONE_NEWUSER | CLONE_NEWPID) == 0;
      if (may && fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const std::uint64_t told[] = {static_cast<std::uint64_t>(getpid()), own_pid_namespace_now()};
        if (write(from[1], told, sizeof told) != sizeof told) _exit(1);
        char byte;
        _exit(read(to[0], &byte, 1) == 0 ? 0 : 1);
      }
      close(from[1]);
      if (may) waitpid(-1, nullptr, 0);
      _exit(0);
    }
    close(to[0]);
    close(from[1]);
    std::uint64_t told[2] = {0, 0};
    made_ = read(from[0], told, sizeof told) == sizeof told;
    own_pid_ = static_cast<int>(told[0]);
    namespace_ = told[1];
    close(from[0]);
    to_ = to[1];
  }
  ~ChildInNamespace() {
    close(to_);
    waitpid(outer_, nullptr, 0);
  }

  static std::uint64_t own_pid_namespace_now() {
    std::string link(64, '\0');
    const ssize_t got = readlink("/proc/self/ns/pid", link.data(), link.size());  // "pid:[4026531836]"
    return got < 6 ? 0 : std::strtoull(link.c_str() + 5, nullptr, 10);
  }

  bool made() const { return made_; }
  int outer() const { return outer_; }      ///< its parent
  int own_pid() const { return own_pid_; }  ///< in its own namespace
  std::uint64_t pid_namespace() const { return namespace_; }

 private:
  pid_t outer_ = 0;
  int to_ = -1, own_pid_ = 0;
  std::uint64_t namespace_ = 0;
  bool made_ = false;
};

TEST(FindProcess, InAnotherPidNamespace_FindsTheDescendantWithThatPidThere) {
  const ChildInNamespace child, other;
  if (!child.made() || !other.made()) GTEST_SKIP() << "no pid namespaces can be made here";
  EXPECT_EQ(child.own_pid(), 1);
  EXPECT_NE(child.pid_namespace(), own_pid_namespace());
  const int found = find_process(child.outer(), child.own_pid(), child.pid_namespace());
  ASSERT_GT(found, 1);
  EXPECT_NE(found, child.outer());
  const ProcessState state = read_process_state(found);
  EXPECT_EQ(state.parent, child.outer());
  EXPECT_EQ(state.own_pid, 1);
  EXPECT_EQ(state.threads.front().own_tid, 1);
  EXPECT_EQ(state.threads.front().tid, found);
  EXPECT_NE(find_process(other.outer(), 1, other.pid_namespace()), found);
  // A descendant is found even if its namespace is unknown.
  EXPECT_EQ(find_process(child.outer(), 1, 0), found);
  EXPECT_EQ(find_process(child.outer(), 2, child.pid_namespace()), 0);
  EXPECT_EQ(find_process(other.outer(), 1, child.pid_namespace()), 0);
  // Pids in this process's own namespace are those in /proc.
  EXPECT_EQ(find_process(getpid(), getpid(), own_pid_namespace()), getpid());
  EXPECT_EQ(find_process(getpid(), getpid(), 0), getpid());
  EXPECT_EQ(read_own_state().own_pid, getpid());
}

}  // namespace
}  // namespace lockstep::watch
