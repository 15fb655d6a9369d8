// SPDX-License-Identifier: Apache-2.0
#include "cli/children/child_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>

#include "cli/base/descriptors.h"
#include "cli/children/core_shares.h"
#include "lockstep/base/cores.h"

namespace lockstep::cli {
namespace {

[[noreturn]] void fail_with(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

struct Pipe {
  int read = -1;
  int write = -1;

  explicit Pipe(int flags = 0) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | flags) != 0) fail_with(errno, "pipe");
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    close_end(read);
    close_end(write);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  static void close_end(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }
  static int take(int& end) {
    const int taken = end;
    end = -1;
    return taken;
  }
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

// Signals that the launcher's user ignored stay ignored, as execve leaves them; not those that the launcher
// itself ignores (let_writes_fail).
void reset(int number) {
  struct sigaction now {};
  const bool ignored = sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
  if (!ignored || number == SIGPIPE || number == SIGXFSZ) signal(number, SIG_DFL);
}

// All that the new process does before it becomes the program. The launcher has threads, so only what is safe
// in a signal handler may be called here.
struct Becoming {
  const char* program;
  char** arguments;
  char** environment;
  const CoreMask* cores;  // null: not bound
  pid_t parent;
  bool own_group;
  bool shielded;
  bool keep_stdin;
  int in;  // -1: /dev/null, where it is not kept
  int out, err, report, inherited;
  rlimit descriptors;

  [[noreturn]] void run() const {
    if (own_group) setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    if (cores != nullptr) {
      sched_setaffinity(0, cores->size() * sizeof(cores->front()),
                        reinterpret_cast<const cpu_set_t*>(cores->data()));
    }
    if (!keep_stdin) dup2(in >= 0 ? in : open("/dev/null", O_RDONLY), 0);
    dup2(out, 1);
    dup2(err, 2);
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    if (inherited >= 0) fcntl(inherited, F_SETFD, 0);
    setrlimit(RLIMIT_NOFILE, &descriptors);
    for (int number = 1; number < NSIG; ++number) reset(number);
    sigset_t blocked;
    sigemptyset(&blocked);
    if (shielded) {
      for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&blocked, number);
    }
    sigprocmask(SIG_SETMASK, &blocked, nullptr);
    execve(program, arguments, environment);
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(report, &error, sizeof(error));
    _exit(127);
  }
};

}  // namespace

Child start_child(const ChildOptions& options) {
  const bool pipe_in = options.in == ChildOptions::In::kPipe;
  std::optional<Pipe> in;
  if (pipe_in) in.emplace(O_NONBLOCK);
  Pipe out(O_NONBLOCK), err(O_NONBLOCK), report;
  // Only the launcher's ends do not block.
  for (int end : {out.write, err.write, pipe_in ? in->read : out.write})
    fcntl(end, F_SETFL, fcntl(end, F_GETFL) & ~O_NONBLOCK);

  const CoreMask cores = to_mask(options.cores);
  const std::vector<char*> arguments = pointers(options.arguments);
  const std::vector<char*> environment = pointers(options.environment);
  const Becoming becoming{.program = options.program.c_str(),
                          .arguments = const_cast<char**>(arguments.data()),
                          .environment = const_cast<char**>(environment.data()),
                          .cores = options.cores.empty() ? nullptr : &cores,
                          .parent = getpid(),
                          .own_group = options.own_group,
                          .shielded = options.shielded,
                          .keep_stdin = options.in == ChildOptions::In::kInherit,
                          .in = pipe_in ? in->read : -1,
                          .out = out.write,
                          .err = err.write,
                          .report = report.write,
                          .inherited = options.inherited,
                          .descriptors = inherited_descriptor_limit()};
  // Not fork: its handlers, gRPC's among them, are not for a process that only executes another program.
  const pid_t pid = _Fork();
  if (pid < 0) fail_with(errno, "fork");
  if (pid == 0) becoming.run();

  Pipe::close_end(report.write);
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(report.read, &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  if (got == sizeof(error)) {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    fail_with(error, options.program);
  }
  return {.pid = pid,
          .in = pipe_in ? Pipe::take(in->write) : -1,
          .out = Pipe::take(out.read),
          .err = Pipe::take(err.read)};
}

bool is_shortage(int error) {
  return error == EAGAIN || error == EMFILE || error == ENFILE || error == ENOMEM;
}

std::string find_program(const std::string& name) {
  int error = ENOENT;
  auto good = [&](const std::string& path) {
    struct stat status;
    if (stat(path.c_str(), &status) != 0) {
      if (errno != ENOENT && errno != ENOTDIR) error = errno;
      return false;
    }
    if (S_ISREG(status.st_mode) && access(path.c_str(), X_OK) == 0) return true;
    error = EACCES;
    return false;
  };
  if (name.find('/') != std::string::npos) {
    if (good(name)) return name;
    fail_with(error, name);
  }
  const char* path = std::getenv("PATH");
  std::string_view folders = path == nullptr ? "/usr/bin:/bin" : path;
  while (!name.empty()) {
    const std::size_t end = folders.find(':');
    const std::string folder(folders.substr(0, end));
    const std::string file = (folder.empty() ? "." : folder) + "/" + name;
    if (good(file)) return file;
    if (end == std::string_view::npos) break;
    folders.remove_prefix(end + 1);
  }
  fail_with(error, name);
}

}  // namespace lockstep::cli
