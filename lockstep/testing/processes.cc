// SPDX-License-Identifier: Apache-2.0
#include "lockstep/testing/processes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/coordination/server/server.h"
#include "lockstep/testing/child_protocol.h"
#include "lockstep/testing/process_logs.h"
#include "lockstep/testing/spawn.h"

namespace lockstep::testing {

using Steady = std::chrono::steady_clock;

/// `lockstep run` also gives each job a secret.
constexpr const char* kSecret = "of the tests of Lockstep";

class Processes::Impl {
 public:
  explicit Impl(ProcessesOptions options)
      : options_(std::move(options)), folder_(std::make_shared<TemporaryFolder>()), start_(Steady::now()) {
    keep_until_test_ends(folder_, title());
    if (options_.coordinator) {
      server_ = std::make_unique<coordination::CoordinationServer>();
      coordination::ServerOptions server_options;
      server_options.num_processes = options_.count;
      server_options.identity.secret = kSecret;
      server_->start(server_options);
    }
    try {
      for (int i = 0; i < options_.count; ++i) start(i);
    } catch (...) {
      kill_all();
      throw;
    }
  }

  ~Impl() { kill_all(); }

  std::string title() const {
    return fmt::format("{} '{}'", options_.count,
                       options_.program.empty() ? options_.child : options_.program.filename().string());
  }

  bool running(int index) {
    Process& process = processes_.at(index);
    if (process.ended) return false;
    int status = 0;
    pid_t found = 0;
    do {
      found = waitpid(process.pid, &status, WNOHANG);
    } while (found < 0 && errno == EINTR);
    if (found == 0) return true;
    process.ended = true;
    process.result.ended_after =
        std::chrono::duration_cast<std::chrono::milliseconds>(Steady::now() - start_);
    if (found > 0 && WIFEXITED(status)) process.result.exit_code = WEXITSTATUS(status);
    if (found > 0 && WIFSIGNALED(status)) process.result.signal = WTERMSIG(status);
    return false;
  }

  // Until `done`; false at the deadline, when all that were still there have been killed and the test has
  // failed.
  template <class Condition>
  bool wait_until(const std::string& what, Condition done) {
    auto pause = std::chrono::microseconds(200);
    while (!done()) {
      if (Steady::now() - start_ >= options_.deadline) {
        expire(what);
        return false;
      }
      std::this_thread::sleep_for(pause);
      if (pause < std::chrono::milliseconds(5)) pause *= 2;
    }
    return true;
  }

  // Waits for a condition on a running process.
  template <class Condition>
  void wait_for(int index, const std::string& what, Condition done) {
    bool gone = false;
    const bool in_time = wait_until(what, [&] {
      // Checked in this order, so that its last actions count.
      const bool was_running = running(index);
      if (done()) return true;
      gone = !was_running;
      return gone;
    });
    if (!in_time) fail<TimeoutError>("[testing] process {} of {} did not {}", index, title(), what);
    if (gone) {
      fail("[testing] process {} of {} ended with {} and did not {}", index, title(),
           describe(processes_[index].result), what);
    }
  }

  ProcessResult result(int index) {
    ProcessResult result = processes_.at(index).result;
    result.log = read_file(log_file(folder_->path(), index));
    return result;
  }

  void kill(int index, int signal) {
    if (running(index)) ::kill(processes_[index].pid, signal);
  }

  void kill_all() {
    for (Process& process : processes_) {
      if (process.ended) continue;
      ::kill(process.pid, SIGKILL);
      int status = 0;
      while (waitpid(process.pid, &status, 0) < 0 && errno == EINTR) {
      }
      process.ended = true;
      process.result.signal = SIGKILL;
    }
  }

  ProcessesOptions options_;
  std::shared_ptr<TemporaryFolder> folder_;
  Steady::time_point start_;
  std::unique_ptr<coordination::CoordinationServer> server_;

  struct Process {
    pid_t pid = -1;
    bool ended = false;
    ProcessResult result;
  };
  std::vector<Process> processes_;

 private:
  static std::string describe(const ProcessResult& result) {
    return result.signal != 0 ? fmt::format("signal {} ({})", result.signal, strsignal(result.signal))
                              : fmt::format("status {}", result.exit_code);
  }

  void start(int index) {
    SpawnOptions spawn;
    spawn.program = options_.program;
    spawn.child = options_.child;
    spawn.arguments = options_.arguments;
    spawn.index = index;
    spawn.count = options_.count;
    spawn.folder = process_folder(folder_->path(), index);
    spawn.log = log_file(folder_->path(), index);
    std::filesystem::create_directory(spawn.folder);
    if (server_ != nullptr) {
      spawn.variables["LOCKSTEP_LAUNCHER"] = "1";  // the coordinator stands here, not in process 0
      spawn.variables["LOCKSTEP_COORDINATOR_ADDRESS"] = server_->address();
      spawn.variables["LOCKSTEP_NUM_PROCESSES"] = std::to_string(options_.count);
      spawn.variables["LOCKSTEP_PROCESS_ID"] = std::to_string(index);
      spawn.variables["LOCKSTEP_JOB_SECRET"] = kSecret;
    }
    for (const auto& [name, value] : options_.env) spawn.variables[name] = value;
    if (options_.env_of) {
      for (const auto& [name, value] : options_.env_of(index)) spawn.variables[name] = value;
    }
    Process process;
    process.pid = spawn_child(spawn);
    processes_.push_back(process);
  }

  void expire(const std::string& what) {
    std::string stuck;
    for (int i = 0; i < static_cast<int>(processes_.size()); ++i) {
      if (!running(i)) continue;
      processes_[i].result.timed_out = true;
      stuck += fmt::format("{}{}", stuck.empty() ? "" : ", ", i);
    }
    kill_all();
    ADD_FAILURE() << fmt::format("waited {} ms for: {}; of {} these were still there and are killed: {}",
                                 options_.deadline.count(), what, title(), stuck.empty() ? "none" : stuck);
  }
};

Processes::Processes(ProcessesOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Processes::~Processes() = default;

int Processes::count() const { return impl_->options_.count; }
pid_t Processes::pid(int index) const { return impl_->processes_.at(index).pid; }
std::filesystem::path Processes::folder(int index) const {
  return process_folder(impl_->folder_->path(), index);
}
std::string Processes::log(int index) const { return read_file(log_file(impl_->folder_->path(), index)); }
bool Processes::running(int index) { return impl_->running(index); }
void Processes::kill(int index, int signal) { impl_->kill(index, signal); }
coordination::CoordinationServer* Processes::coordinator() { return impl_->server_.get(); }

void Processes::wait_for_line(int index, std::string_view text) {
  impl_->wait_for(index, fmt::format("print '{}'", text),
                  [&] { return log(index).find(text) != std::string::npos; });
}

void Processes::wait_for_file(int index, const std::filesystem::path& name) {
  impl_->wait_for(index, fmt::format("make the file {}", name.string()),
                  [&] { return std::filesystem::exists(folder(index) / name); });
}

ProcessResult Processes::wait(int index) {
  impl_->wait_until(fmt::format("the end of process {}", index), [&] { return !impl_->running(index); });
  return impl_->result(index);
}

std::vector<ProcessResult> Processes::wait() {
  impl_->wait_until("the end of all processes", [&] {
    bool any = false;
    for (int i = 0; i < count(); ++i) any = impl_->running(i) || any;
    return !any;
  });
  std::vector<ProcessResult> results;
  for (int i = 0; i < count(); ++i) results.push_back(impl_->result(i));
  return results;
}

std::vector<std::string> command_of_child(const std::string& child,
                                          const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"/usr/bin/env", std::string(kChildVariable) + "=" + child,
                                      std::filesystem::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

std::vector<ProcessResult> run_processes(ProcessesOptions options) {
  return Processes(std::move(options)).wait();
}

}  // namespace lockstep::testing
