// SPDX-License-Identifier: Apache-2.0
#include "cli/stacks/stacks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <thread>
#include <utility>

#include "cli/stacks/snapshot.h"
#include "cli/stacks/unwind.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// How long threads may take to stop.
constexpr std::chrono::seconds kLongestStop(1);

/// Yama's limit on tracing: 0 none, 1 ancestors only, 2 administrators only, 3 nobody.
int ptrace_scope() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  file >> scope;
  return scope;
}

std::string why_refused(const watch::ProcessState& process, int pid, int error) {
  if (pid == getpid()) return "a process cannot stop itself to be looked at";
  if (error != EPERM && error != EACCES) return fmt::format("ptrace failed: {}", std::strerror(error));
  if (process.tracer != 0) {
    return fmt::format("process {} traces it already, as debuggers and strace do; end that one first",
                       process.tracer);
  }
  if (process.user != geteuid() && geteuid() != 0) {
    return fmt::format("it belongs to another user (uid {}); run this as that user or as root", process.user);
  }
  switch (ptrace_scope()) {
    case 0:
      return "the system forbids ptrace; as root, or in a container with --cap-add SYS_PTRACE, it is allowed";
    case 1:
      return "the system allows ptrace only to a process's ancestors (kernel.yama.ptrace_scope is 1); run "
             "this as root, or allow it: sudo sysctl kernel.yama.ptrace_scope=0";
    case 2:
      return "the system allows ptrace only to root (kernel.yama.ptrace_scope is 2); run this as root";
    default:
      return "the system does not allow ptrace at all until it is restarted (kernel.yama.ptrace_scope is 3)";
  }
}

ProcessStacks take_before(int pid, const StackOptions& options, Clock::time_point deadline) {
  ProcessStacks result{.pid = pid, .process = watch::read_process_state(pid)};
  if (!result.process.exists) return result;
  for (const watch::ThreadState& state : result.process.threads)
    result.threads.push_back({.state = state, .main = state.tid == pid});

  // The rest of the time is for reading symbols. Threads stop within microseconds or, waiting for a driver,
  // never.
  const Snapshot snapshot =
      take_snapshot(pid, std::min<std::chrono::milliseconds>(options.limit / 2, kLongestStop));
  result.paused = snapshot.paused;
  if (snapshot.error != 0) {
    const watch::ProcessState now = watch::read_process_state(pid);
    const bool there = now.exists && now.state != 'Z' && now.start_ticks == result.process.start_ticks;
    if (there)
      result.refused = why_refused(now, pid, snapshot.error);
    else
      result.process = now;
    return result;
  }
  std::vector<Unwound> unwound = unwind(pid, snapshot, options.most_frames, deadline);
  std::vector<ThreadStack> threads;
  for (std::size_t i = 0; i < unwound.size(); ++i) {
    const int tid = snapshot.threads[i].tid;
    const auto known = std::find_if(result.threads.begin(), result.threads.end(),
                                    [&](const ThreadStack& thread) { return thread.state.tid == tid; });
    ThreadStack thread{.state = {.tid = tid, .state = 'R'}, .main = tid == pid};  // a new one
    if (known != result.threads.end()) thread = std::move(*known);
    if (snapshot.threads[i].taken && (thread.state.state == 'R' || thread.state.state == 'S')) {
      thread.state.syscall = snapshot.threads[i].syscall;
      thread.state.state = thread.state.syscall ? 'S' : 'R';
    }
    thread.frames = std::move(unwound[i].frames);
    thread.missing = std::move(unwound[i].missing);
    threads.push_back(std::move(thread));
  }
  result.threads = std::move(threads);
  return result;
}

}  // namespace

ProcessStacks take_stacks(int pid, const StackOptions& options) {
  return take_before(pid, options, Clock::now() + options.limit);
}

std::vector<ProcessStacks> take_stacks(const std::vector<int>& pids, const StackOptions& options) {
  std::vector<ProcessStacks> results(pids.size());
  std::vector<std::exception_ptr> failures(pids.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < pids.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        results[i] = take_stacks(pids[i], options);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return results;
}

}  // namespace lockstep::cli
