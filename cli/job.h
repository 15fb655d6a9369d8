#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/hosts.h"
#include "cli/job_server.h"
#include "cli/restarts.h"

namespace lockstep::cli {

struct JobOptions {
  int num_processes = 1;
  std::vector<std::string> command;  ///< The program and its arguments.
  std::optional<int> devices_per_process;
  bool bind = true;  ///< Each process to its share of its host's cores, where there are enough.
  double grace =
      2;  ///< Seconds from the first failure until the others are killed; half of it before SIGTERM.
  RestartLimit max_restarts;   ///< How often a job that failed is started again.
  int restart_delay = 60;      ///< Seconds: the longest wait before a restart.
  int wait_for_hosts = 0;      ///< Seconds that a host that does not answer is waited for.
  std::optional<int> timeout;  ///< Seconds for the whole job, with its restarts.
  std::optional<std::filesystem::path>
      report_folder;                 ///< Where what is known of a failed attempt is written.
  double stall_warning = 10;         ///< Seconds that they may, before a word on it.
  std::optional<int> stall_timeout;  ///< Seconds that processes may wait for one that does not come.
  std::optional<std::filesystem::path> trace_file;  ///< Take a trace into it (docs/tracing.md).
  double trace_after = 0;                           ///< Seconds after the processes' start.
  std::optional<double> trace_seconds;              ///< For so long; until the end where there is none.
  bool verbose = false;                             ///< Say what is started and where.

  /// Seconds; told to the coordinator and the processes. Their own defaults where not given.
  std::optional<int> heartbeat_timeout, initialization_timeout, shutdown_timeout;

  /// Where each process's output goes too, unchanged, as process-I.log, on restart A as
  /// process-I.attempt-A.log.
  std::optional<std::filesystem::path> log_folder;

  /// The hosts that the user named; empty where all is on this one.
  std::vector<HostSlots> hosts;

  /// Where the processes go, in blocks from process 0 on; all on this host where it is empty.
  std::vector<Placement> placements;
  enum class By { kRsh, kSlurm } by = By::kRsh;  ///< What starts them on other hosts.
  std::vector<std::string> rsh = {"ssh"};  ///< ssh, or what takes its place: words that HOST COMMAND follow.
  std::string remote_tool;                 ///< The lockstep tool on other hosts; this one's path where empty.

  /// "HOST", "HOST:PORT": where the coordinator binds, and how the processes reach it; the interface's
  /// address otherwise, or else one that is found out.
  std::optional<std::string> coordinator_address, interface;

  std::map<std::string, std::string> variables;  ///< For all processes.

  std::optional<StatusPageOptions> status_page;  ///< A page to look at while it runs; none otherwise.
};

/// Exit statuses of the launcher's own, as a shell's.
inline constexpr int kLauncherFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kTimedOut = 124;  // as of timeout(1)
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;

/// "it took longer than --timeout 60 s".
std::string describe_timeout(const JobOptions& options);

/// Runs the program in so many processes, on this host or on several, with the coordinator in this one, until
/// all have ended.
///
/// Their output goes to standard output and standard error line by line, with the process before each line.
/// Where all run on this host, process 0 reads standard input. INT, TERM, HUP, USR1, USR2, TSTP and CONT are
/// passed on to all, but for those that were ignored. After INT, TERM or HUP all may take as long as they
/// need; a second INT or TERM kills them. They are killed, too, when this process dies, and those
/// of a host whose connection to this one ends. What they leave running is killed when all have ended.
///
/// When a process fails (a status other than 0, a signal, its host lost), or ends while others count on it,
/// the coordinator tells the others at once, so that what they wait for throws; those still there after half
/// of the grace get SIGTERM, and SIGKILL at its end. Then all is started again, with the next attempt's
/// number and a new coordinator, as often as the options allow, unless a signal to this process came before;
/// a lost host's processes go to hosts that have places left, where these suffice. The last lines on standard
/// error say which process failed and how, and what became of the others.
///
/// Returns the first failure's status (128 and the signal where one ended it) of the last attempt, 0 where
/// there was none, 127 or 126 where the program is not there or cannot be executed; 128 and the signal where
/// a signal to this process ended a job that had no status to give; 124 where the time-out did. Call it from
/// the main thread, once; throws Error where a host cannot be reached, or the coordinator or the logs cannot
/// be set up.
int run_job(const JobOptions& options);

}  // namespace lockstep::cli
