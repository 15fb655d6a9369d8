// SPDX-License-Identifier: Apache-2.0
#include "cli/stacks/snapshot.h"

#include <dirent.h>
#include <elf.h>
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostStack = 1 << 20;
constexpr std::uint64_t kBelowStackPointer = 256;        // a leaf function's data may lie there
constexpr std::chrono::milliseconds kStandTogether(50);  // how long the threads wait for those still running
constexpr std::chrono::microseconds kBetweenLooks(50);
constexpr int kEventStop = 128;  // PTRACE_EVENT_STOP

std::vector<int> threads_of(int pid) {
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir(fmt::format("/proc/{}/task", pid).c_str()),
                                                  &closedir);
  std::vector<int> tids;
  while (const dirent* entry = tasks ? readdir(tasks.get()) : nullptr) {
    if (const int tid = std::atoi(entry->d_name); tid > 0) tids.push_back(tid);
  }
  return tids;
}

std::vector<MemoryRange> memory_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/maps", pid));
  std::vector<MemoryRange> ranges;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    MemoryRange range;
    char dash = 0;
    std::string permissions, offset, device, inode;
    if (!(words >> std::hex >> range.start >> dash >> range.end >> permissions >> offset >> device >> inode))
      continue;
    std::getline(words >> std::ws, range.file);
    range.readable = permissions.find('r') != std::string::npos;
    range.executable = permissions.find('x') != std::string::npos;
    ranges.push_back(range);
  }
  return ranges;
}

/// Whether this is what a system call returns that was interrupted while it waited: EINTR, or one of the
/// kernel's own numbers, which programs never see (ERESTARTSYS to ERESTART_RESTARTBLOCK).
bool was_interrupted(std::uint64_t returned) {
  const auto error = -static_cast<std::int64_t>(returned);
  return error == EINTR || (error >= 512 && error <= 516);
}

/// Its registers and its system call; false where it has another instruction set than this program, as 32-bit
/// ones.
bool read_registers(int tid, ThreadSnapshot& thread, std::uint64_t& stack_pointer) {
  user_regs_struct now{};
  iovec into{&now, sizeof now};
  if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &into) != 0 || into.iov_len != sizeof now) return false;
#if defined(__x86_64__)
  thread.registers = {now.rax, now.rdx, now.rcx, now.rbx, now.rsi, now.rdi, now.rbp, now.rsp, now.r8,
                      now.r9,  now.r10, now.r11, now.r12, now.r13, now.r14, now.r15, now.rip};
  thread.pc = now.rip;
  stack_pointer = now.rsp;
  const auto call = static_cast<long>(now.orig_rax);
  if (call >= 0 && was_interrupted(now.rax)) thread.syscall = call;
#elif defined(__aarch64__)
  thread.registers.assign(now.regs, now.regs + 31);
  thread.registers.push_back(now.sp);
  thread.pc = now.pc;
  stack_pointer = now.sp;
  int call = -1;
  iovec into_call{&call, sizeof call};
  if (ptrace(PTRACE_GETREGSET, tid, NT_ARM_SYSTEM_CALL, &into_call) == 0 && call >= 0 &&
      was_interrupted(now.regs[0])) {
    thread.syscall = call;
  }
#else
#error "which registers does this architecture have?"
#endif
  return true;
}

/// One tracing of one process; everything in one thread, as ptrace wants it.
class Tracing {
 public:
  Tracing(int pid, std::chrono::milliseconds limit) : pid_(pid), deadline_(Clock::now() + limit) {}

  Snapshot take() {
    snapshot_.memory = memory_of(pid_);
    seize_all();
    if (seized_.empty()) {
      snapshot_.error = error_;
      return std::move(snapshot_);
    }
    // From here on threads stand still.
    const Clock::time_point start = Clock::now();
    Clock::time_point released = start;
    for (const int tid : seized_) {
      if (ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) == 0) awaited_.insert(tid);
    }
    for (Clock::time_point now = start; now < deadline_; now = Clock::now()) {
      copy_stopped();
      // A thread may have made another before it stopped.
      if (awaited_.empty() && !interrupt_new()) break;
      if (awaited_.empty()) continue;
      if (now >= start + kStandTogether) {
        release();
        released = Clock::now();
      }
      std::this_thread::sleep_for(kBetweenLooks);
    }
    if (!stopped_.empty()) {
      release();
      released = Clock::now();
    }
    for (const int tid : awaited_) snapshot_.threads.push_back({.tid = tid});
    std::sort(snapshot_.threads.begin(), snapshot_.threads.end(),
              [](const auto& one, const auto& other) { return one.tid < other.tid; });
    snapshot_.paused = std::chrono::duration_cast<std::chrono::microseconds>(released - start);
    // Threads that have not stopped are given free when this thread ends.
    return std::move(snapshot_);
  }

 private:
  /// Whether there were any that it did not know.
  bool seize_all() {
    bool found = false;
    for (const int tid : threads_of(pid_)) {
      if (seized_.contains(tid) || passed_over_.contains(tid)) continue;
      // Not PTRACE_ATTACH, which sends a SIGSTOP that may stay.
      if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) == 0) {
        seized_.insert(tid);
        found = true;
      } else {
        // One that has just ended is refused, too, with EPERM; any other refusal holds for all.
        passed_over_.insert(tid);
        error_ = errno;
      }
    }
    return found;
  }

  bool interrupt_new() {
    const std::set<int> before = seized_;
    if (!seize_all()) return false;
    for (const int tid : seized_) {
      if (!before.contains(tid) && ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) == 0) awaited_.insert(tid);
    }
    return true;
  }

  /// Copies those that stand still by now. Whether they do is asked of ptrace itself: a wait for them could
  /// meet the end of a child that another thread waits for, or lose a stop to that thread.
  void copy_stopped() {
    for (auto one = awaited_.begin(); one != awaited_.end();) {
      const int tid = *one;
      siginfo_t why{};
      if (ptrace(PTRACE_GETSIGINFO, tid, nullptr, &why) != 0) {
        // It still runs, or it has ended.
        one = is_there(tid) ? std::next(one) : awaited_.erase(one);
        continue;
      }
      // It may have stopped at a signal, which it is to get when it runs on.
      stopped_[tid] = why.si_code >> 8 == kEventStop ? 0 : why.si_signo;
      snapshot_.threads.push_back(copy(tid));
      one = awaited_.erase(one);
    }
  }

  bool is_there(int tid) const {
    std::ifstream file(fmt::format("/proc/{}/task/{}/stat", pid_, tid));
    std::string line;
    if (!std::getline(file, line)) return false;
    const std::size_t name_end = line.rfind(") ");
    return name_end != std::string::npos && line[name_end + 2] != 'Z' && line[name_end + 2] != 'X';
  }

  ThreadSnapshot copy(int tid) {
    ThreadSnapshot thread{.tid = tid};
    std::uint64_t pointer = 0;
    if (!read_registers(tid, thread, pointer)) return {.tid = tid};
    thread.taken = true;
    const MemoryRange* range = range_at(snapshot_.memory, pointer);
    if (range == nullptr) {
      snapshot_.memory = memory_of(pid_);  // the thread is newer
      range = range_at(snapshot_.memory, pointer);
    }
    if (range == nullptr || !range->readable) return thread;
    thread.stack_start = std::max(range->start, (pointer - kBelowStackPointer) & ~std::uint64_t{15});
    thread.stack.resize(std::min<std::uint64_t>(range->end - thread.stack_start, kMostStack));
    const iovec into{thread.stack.data(), thread.stack.size()};
    const iovec from{reinterpret_cast<void*>(thread.stack_start), thread.stack.size()};
    const ssize_t got = process_vm_readv(tid, &into, 1, &from, 1, 0);
    thread.stack.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return thread;
  }

  void release() {
    for (const auto& [tid, signal] : stopped_) {
      ptrace(PTRACE_DETACH, tid, nullptr, reinterpret_cast<void*>(static_cast<std::intptr_t>(signal)));
    }
    stopped_.clear();
  }

  const int pid_;
  const Clock::time_point deadline_;
  Snapshot snapshot_;
  int error_ = ESRCH;
  std::set<int> seized_, passed_over_;
  std::set<int> awaited_;       // interrupted, not seen to stand still
  std::map<int, int> stopped_;  // with the signal to run on with
};

}  // namespace

const MemoryRange* range_at(const std::vector<MemoryRange>& ranges, std::uint64_t address) {
  const auto above =
      std::upper_bound(ranges.begin(), ranges.end(), address,
                       [](std::uint64_t value, const MemoryRange& range) { return value < range.start; });
  return above == ranges.begin() || address >= (above - 1)->end ? nullptr : &*(above - 1);
}

Snapshot take_snapshot(int pid, std::chrono::milliseconds limit) {
  Snapshot snapshot;
  std::exception_ptr failure;
  std::thread tracer([&] {
    try {
      snapshot = Tracing(pid, limit).take();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  tracer.join();
  if (failure) std::rethrow_exception(failure);
  return snapshot;
}

}  // namespace lockstep::cli
