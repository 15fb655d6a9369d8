// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/testing/child.h"

namespace lockstep::coordination {
class CoordinationServer;
}

namespace lockstep::testing {

using Variables = std::map<std::string, std::string>;

struct ProcessesOptions {
  int count = 1;

  /// The LOCKSTEP_CHILD of this executable to run; empty if `program` is given.
  std::string child;

  /// A program to run instead, by path.
  std::filesystem::path program;

  std::vector<std::string> arguments;

  /// Variables set for all processes, and on top of them those for process i. The others come from the test's
  /// own environment, less LOCKSTEP_..., JAX_..., and what launchers set (SLURM_..., OMPI_..., PMI_...);
  /// LOCKSTEP_PJRT_PLUGIN and LOCKSTEP_TRUST stay.
  Variables env;
  std::function<Variables(int)> env_of;

  /// Starts a coordinator in the test's process and gives each process what `lockstep run` gives:
  /// LOCKSTEP_LAUNCHER, LOCKSTEP_COORDINATOR_ADDRESS, LOCKSTEP_NUM_PROCESSES, LOCKSTEP_PROCESS_ID and
  /// LOCKSTEP_JOB_SECRET.
  bool coordinator = false;

  /// For all processes together, from their start. Then those still running are killed, and the test fails
  /// with a message that names them.
  std::chrono::milliseconds deadline = std::chrono::seconds(60);
};

/// Processes that learn at once that another failed end within this time; others wait for a timeout of 30 s
/// or more. It takes a second alone on a machine, and several with other tests beside it.
inline constexpr std::chrono::milliseconds kAtOnce(20'000);

/// How one process ended.
struct ProcessResult {
  int exit_code = -1;      ///< -1 if a signal ended it
  int signal = 0;          ///< the signal that ended it; 0 if none did
  bool timed_out = false;  ///< it was still running at the deadline, and was killed
  std::string log;         ///< its standard output and standard error

  /// When it was found to have ended, from the start of all.
  std::chrono::milliseconds ended_after{0};
};

/// Processes started together by a test, each in an empty folder of its own, with its output in a log that is
/// printed when the test fails (with lockstep_testing_main). They run this executable again, without fork.
/// No process outlives the test, even if the test is killed: a process dies with the thread that started it.
/// To be used by one thread. Throws Error if a process cannot be started.
class Processes {
 public:
  explicit Processes(ProcessesOptions options);
  ~Processes();  ///< kills those still running
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int count() const;
  pid_t pid(int index) const;

  /// The working folder of the process; it stays until the test ends.
  std::filesystem::path folder(int index) const;

  /// The process's output so far.
  std::string log(int index) const;

  bool running(int index);

  /// Sends the signal; does nothing if the process has ended.
  void kill(int index, int signal);

  /// Blocks until the process has printed `text`, which is then part of its log; returns at once if it has.
  /// Throws Error if the process ends without it, and TimeoutError at the deadline, after killing all.
  void wait_for_line(int index, std::string_view text);

  /// Blocks until the file exists in the process's folder. Throws as wait_for_line.
  void wait_for_file(int index, const std::filesystem::path& name);

  /// Blocks until the process has ended, or the deadline.
  ProcessResult wait(int index);

  /// Blocks until all have ended, or the deadline.
  std::vector<ProcessResult> wait();

  /// Null if none was requested.
  coordination::CoordinationServer* coordinator();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// A command line that runs this LOCKSTEP_CHILD, for programs that start others, such as `lockstep run`. The
/// child then does not end with the test.
std::vector<std::string> command_of_child(const std::string& child,
                                          const std::vector<std::string>& arguments = {});

/// Starts the processes and waits for them.
std::vector<ProcessResult> run_processes(ProcessesOptions options);

}  // namespace lockstep::testing
