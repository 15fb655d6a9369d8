// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/proc_state.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include "lockstep/base/text.h"

namespace lockstep::watch {
namespace {

constexpr int kMostParents = 1000;

/// The start of a file of the kernel; nullopt if it cannot be read.
std::optional<std::string> read_file(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  std::array<char, 4096> buffer;
  const ssize_t got = read(descriptor, buffer.data(), buffer.size());
  close(descriptor);
  if (got < 0) return std::nullopt;
  return std::string(buffer.data(), static_cast<std::size_t>(got));
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t start = text.find_first_not_of(" \t\n");
    if (start == std::string_view::npos) return words;
    text.remove_prefix(start);
    const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

template <class Number>
Number to_number(std::string_view word) {
  Number number = 0;
  std::from_chars(word.data(), word.data() + word.size(), number);
  return number;
}

/// A line of /proc/PID/stat or of a thread's. proc(5) counts its fields from 1; the name, field 2, is in
/// parentheses and may hold anything.
class Stat {
 public:
  explicit Stat(const std::string& line) {
    const std::size_t start = line.find('('), end = line.rfind(')');
    if (start == std::string::npos || end == std::string::npos || end < start) return;
    // The kernel cuts it, perhaps within a character.
    name_ = shown(whole_characters(std::string_view(line).substr(start + 1, end - start - 1)));
    rest_ = line.substr(end + 1);
    fields_ = split_words(rest_);
  }
  Stat(const Stat&) = delete;
  Stat& operator=(const Stat&) = delete;

  bool good() const { return fields_.size() > kLastUsed - kFirst; }
  const std::string& name() const { return name_; }
  char state() const { return fields_[0][0]; }
  int parent() const { return to_number<int>(fields_[4 - kFirst]); }
  std::uint64_t cpu_ticks() const { return field(14) + field(15); }
  std::uint64_t start_ticks() const { return field(22); }
  std::uint64_t rss_pages() const { return field(kLastUsed); }

 private:
  static constexpr std::size_t kFirst = 3, kLastUsed = 24;
  std::uint64_t field(std::size_t number) const { return to_number<std::uint64_t>(fields_[number - kFirst]); }

  std::string name_, rest_;
  std::vector<std::string_view> fields_;
};

/// The words after the name in /proc/PID/status.
std::vector<std::string_view> status_words(std::string_view status, std::string_view name) {
  const std::size_t at = status.find(name);
  if (at == std::string_view::npos) return {};
  status.remove_prefix(at + name.size());
  return split_words(status.substr(0, status.find('\n')));
}

std::uint64_t status_number(std::string_view status, std::string_view name, std::size_t word = 0) {
  const auto words = status_words(status, name);
  return word < words.size() ? to_number<std::uint64_t>(words[word]) : 0;
}

/// The number of the process or thread in its own pid namespace, which is the last one of NSpid.
int own_number(std::string_view status, int otherwise) {
  const auto words = status_words(status, "\nNSpid:");
  return words.empty() ? otherwise : to_number<int>(words.back());
}

std::string status_of(int pid) { return read_file(fmt::format("/proc/{}/status", pid)).value_or(""); }

std::uint64_t pid_namespace_of(std::string_view process) {
  struct stat status {};
  return stat(fmt::format("/proc/{}/ns/pid", process).c_str(), &status) == 0 ? status.st_ino : 0;
}

/// Whether the process is `root` or a descendant of it.
bool is_below(int pid, int root) {
  for (int i = 0; i < kMostParents && pid > 0; ++i) {
    if (pid == root) return true;
    pid = static_cast<int>(status_number(status_of(pid), "\nPPid:"));
  }
  return false;
}

/// Whether /proc shows this process's own pid namespace.
bool proc_is_own() {
  std::array<char, 32> self{};
  return readlink("/proc/self", self.data(), self.size() - 1) > 0 && to_number<int>(self.data()) == getpid();
}

std::optional<ThreadState> read_thread(const std::string& folder, int tid) {
  const auto line = read_file(folder + "/stat");
  if (!line) return std::nullopt;
  const Stat stat(*line);
  if (!stat.good()) return std::nullopt;
  ThreadState thread{
      .tid = tid, .own_tid = tid, .name = stat.name(), .state = stat.state(), .cpu_ticks = stat.cpu_ticks()};
  if (thread.state == 'R' || thread.state == 'Z' || thread.state == 'X') return thread;
  // Both contain "0" or "running" if it does not sleep any more.
  if (auto wchan = read_file(folder + "/wchan"); wchan && *wchan != "0") thread.wchan = *wchan;
  if (const auto call = read_file(folder + "/syscall"); call && !call->empty() && call->front() != 'r') {
    const long number = to_number<long>(split_words(*call)[0]);
    if (number >= 0) thread.syscall = number;
  }
  return thread;
}

/// The folders of this folder of /proc whose names are numbers.
std::vector<int> numbers_in(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir(folder.c_str()), &closedir);
  std::vector<int> tids;
  while (const dirent* entry = tasks ? readdir(tasks.get()) : nullptr) {
    if (const int tid = to_number<int>(entry->d_name); tid > 0) tids.push_back(tid);
  }
  std::sort(tids.begin(), tids.end());
  return tids;
}

/// System calls in which a thread of a program may be found waiting; others show as numbers.
constexpr std::pair<long, std::string_view> kSyscalls[] = {
    {SYS_accept, "accept"},
    {SYS_accept4, "accept4"},
    {SYS_bind, "bind"},
    {SYS_brk, "brk"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_clone, "clone"},
    {SYS_close, "close"},
    {SYS_connect, "connect"},
    {SYS_copy_file_range, "copy_file_range"},
    {SYS_epoll_pwait, "epoll_pwait"},
    {SYS_execve, "execve"},
    {SYS_exit, "exit"},
    {SYS_exit_group, "exit_group"},
    {SYS_fallocate, "fallocate"},
    {SYS_fcntl, "fcntl"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_flock, "flock"},
    {SYS_fstat, "fstat"},
    {SYS_fsync, "fsync"},
    {SYS_ftruncate, "ftruncate"},
    {SYS_futex, "futex"},
    {SYS_getdents64, "getdents64"},
    {SYS_getrandom, "getrandom"},
    {SYS_io_getevents, "io_getevents"},
    {SYS_io_submit, "io_submit"},
    {SYS_ioctl, "ioctl"},
    {SYS_madvise, "madvise"},
    {SYS_membarrier, "membarrier"},
    {SYS_mlock, "mlock"},
    {SYS_mmap, "mmap"},
    {SYS_mprotect, "mprotect"},
    {SYS_mremap, "mremap"},
    {SYS_msync, "msync"},
    {SYS_munmap, "munmap"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_openat, "openat"},
    {SYS_ppoll, "ppoll"},
    {SYS_pread64, "pread64"},
    {SYS_preadv, "preadv"},
    {SYS_process_vm_readv, "process_vm_readv"},
    {SYS_pselect6, "pselect6"},
    {SYS_pwrite64, "pwrite64"},
    {SYS_pwritev, "pwritev"},
    {SYS_read, "read"},
    {SYS_readv, "readv"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmmsg, "recvmmsg"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_restart_syscall, "restart_syscall"},
    {SYS_rt_sigsuspend, "rt_sigsuspend"},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait"},
    {SYS_sched_yield, "sched_yield"},
    {SYS_semtimedop, "semtimedop"},
    {SYS_sendfile, "sendfile"},
    {SYS_sendmmsg, "sendmmsg"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_sendto, "sendto"},
    {SYS_splice, "splice"},
    {SYS_statx, "statx"},
    {SYS_sync, "sync"},
    {SYS_sync_file_range, "sync_file_range"},
    {SYS_syncfs, "syncfs"},
    {SYS_unlinkat, "unlinkat"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_write, "write"},
    {SYS_writev, "writev"},
// Not on every architecture, or not in the oldest headers.
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, "epoll_wait"},
#endif
#ifdef SYS_open
    {SYS_open, "open"},
#endif
#ifdef SYS_pause
    {SYS_pause, "pause"},
#endif
#ifdef SYS_poll
    {SYS_poll, "poll"},
#endif
#ifdef SYS_select
    {SYS_select, "select"},
#endif
#ifdef SYS_stat
    {SYS_stat, "stat"},
#endif
#ifdef SYS_unlink
    {SYS_unlink, "unlink"},
#endif
#ifdef SYS_epoll_pwait2
    {SYS_epoll_pwait2, "epoll_pwait2"},
#endif
#ifdef SYS_futex_wait
    {SYS_futex_wait, "futex_wait"},
#endif
#ifdef SYS_futex_waitv
    {SYS_futex_waitv, "futex_waitv"},
#endif
#ifdef SYS_io_uring_enter
    {SYS_io_uring_enter, "io_uring_enter"},
#endif
};

ProcessState read_state(const std::string& folder) {
  ProcessState process;
  const auto line = read_file(folder + "/stat");
  if (!line) return process;
  const Stat stat(*line);
  if (!stat.good()) return process;
  process.exists = true;
  process.state = stat.state();
  process.name = stat.name();
  process.parent = stat.parent();
  process.start_ticks = stat.start_ticks();
  process.cpu_ticks = stat.cpu_ticks();
  process.rss_bytes = stat.rss_pages() * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::string status = read_file(folder + "/status").value_or("");
  process.tracer = static_cast<int>(status_number(status, "\nTracerPid:"));
  process.user = static_cast<unsigned>(status_number(status, "\nUid:", 1));
  const bool nested = status_words(status, "\nNSpid:").size() > 1;
  process.own_pid = own_number(status, static_cast<int>(status_number(status, "\nPid:")));
  for (const int tid : numbers_in(folder + "/task")) {
    const std::string of_thread = fmt::format("{}/task/{}", folder, tid);
    auto thread = read_thread(of_thread, tid);
    if (!thread) continue;
    if (nested) thread->own_tid = own_number(read_file(of_thread + "/status").value_or(""), tid);
    process.threads.push_back(std::move(*thread));
  }
  // A process that has taken its pid meanwhile is another one.
  if (process.threads.empty()) return {};
  return process;
}

}  // namespace

ProcessState read_process_state(int pid) { return read_state(fmt::format("/proc/{}", pid)); }

ProcessState read_own_state() { return read_state("/proc/self"); }

std::uint64_t own_pid_namespace() {
  static const std::uint64_t own = pid_namespace_of("self");
  return own;
}

int find_process(int root, int own_pid, std::uint64_t pid_namespace) {
  if (!proc_is_own()) return 0;
  if (pid_namespace == own_pid_namespace()) return own_pid;
  for (const int pid : numbers_in("/proc")) {
    if (own_number(status_of(pid), pid) != own_pid) continue;
    const std::uint64_t of_this = pid_namespace_of(std::to_string(pid));
    const bool elsewhere = pid_namespace != 0 && of_this != 0 && of_this != pid_namespace;
    if (!elsewhere && is_below(pid, root)) return pid;
  }
  return 0;
}

std::string syscall_name(long number) {
  for (const auto& [known, name] : kSyscalls) {
    if (known == number) return std::string(name);
  }
  return fmt::format("system call {}", number);
}

std::string describe(const ThreadState& thread) {
  std::string where;
  // That a call continues after a stop means nothing, nor does the kernel's function.
  if (thread.syscall && *thread.syscall != SYS_restart_syscall)
    where = " in " + syscall_name(*thread.syscall);
  else if (thread.wchan.starts_with("futex"))
    where = " in futex";
  else if (!thread.wchan.empty() && !thread.wchan.starts_with("do_syscall"))
    where = fmt::format(" in the kernel's {}", thread.wchan);
  switch (thread.state) {
    case 'R':
      return "running";
    case 'S':
      return "waiting" + where;
    case 'D':
      return "waiting for a disk or driver" + where;
    case 'T':
      return "stopped";
    case 't':
      return "stopped by a tracer";
    case 'Z':
    case 'X':
      return "ended";
    default:
      return fmt::format("in state {}", thread.state);
  }
}

Evidence evidence_of(const ThreadState& thread, int own_pid, double cpu_share) {
  return {.state = thread.state,
          .call = thread.syscall ? syscall_name(*thread.syscall) : thread.wchan,
          .cpu_share = cpu_share,
          .thread_name = thread.own_tid == own_pid ? "" : thread.name};
}

double seconds_of_ticks(std::uint64_t ticks) {
  static const auto per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  return static_cast<double>(ticks) / per_second;
}

}  // namespace lockstep::watch
