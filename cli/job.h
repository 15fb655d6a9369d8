#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

struct JobOptions {
  int num_processes = 1;
  std::vector<std::string> command;  ///< The program and its arguments.
  std::optional<int> devices_per_process;
  bool bind = true;  ///< Each process to its share of the cores, where there are enough.
  double grace =
      2;  ///< Seconds from the first failure until the others are killed; half of it before SIGTERM.
  bool verbose = false;  ///< Say what is started and where.

  /// Seconds; told to the coordinator and the processes. Their own defaults where not given.
  std::optional<int> heartbeat_timeout, initialization_timeout, shutdown_timeout;

  /// Where each process's output goes too, unchanged, as process-I.log.
  std::optional<std::filesystem::path> log_folder;
};

/// Exit statuses of the launcher's own, as a shell's.
inline constexpr int kLauncherFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;

/// Runs the program in so many processes on this host, with the coordinator in this one, until all have
/// ended.
///
/// Their output goes to standard output and standard error line by line, with the process before each line.
/// Process 0 reads standard input. INT, TERM, HUP, USR1, USR2, TSTP and CONT are passed on to all; a second
/// INT or TERM kills them. They are killed, too, when this process dies.
///
/// When a process fails (a status other than 0, or a signal), or ends while others count on it, the
/// coordinator tells the others at once, so that what they wait for throws; those still there after half of
/// the grace get SIGTERM, and SIGKILL at its end. The last lines on standard error then say which process
/// failed and how, and what became of the others.
///
/// Returns the first failure's status (128 and the signal where one ended it), 0 where there was none, 127 or
/// 126 where the program is not there or cannot be executed. Call it from the main thread, once; throws Error
/// where the coordinator or the logs cannot be set up.
int run_job(const JobOptions& options);

}  // namespace lockstep::cli
