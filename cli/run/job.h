// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/hosts/host_groups.h"
#include "cli/hosts/hosts.h"
#include "cli/run/restarts.h"
#include "cli/status/job_server.h"
#include "lockstep/base/options.h"

namespace lockstep::cli {

struct JobOptions {
  int num_processes = 1;
  std::vector<std::string> command;  ///< the program and its arguments
  std::optional<int> devices_per_process;
  bool bind = true;  ///< bind each process to its share of its host's cores, if there are enough
  double grace =
      2;  ///< seconds from the first failure until the others are killed; SIGTERM is sent after half of it
  RestartLimit max_restarts;   ///< how often a failed job is started again
  int restart_delay = 60;      ///< in seconds: the longest wait before a restart
  int wait_for_hosts = 0;      ///< how many seconds to wait for a host that does not answer
  std::optional<int> timeout;  ///< in seconds, for the whole job, including restarts
  std::optional<std::filesystem::path> report_folder;       ///< the folder for reports about failed attempts
  double stall_warning = options::kStallWarning.otherwise;  ///< seconds of waiting before a message
  std::optional<int> stall_timeout;  ///< seconds that processes may wait for one that does not arrive
  std::optional<std::filesystem::path> trace_file;  ///< the file for a trace (docs/tracing.md)
  double trace_after = 0;                           ///< seconds after the processes' start
  std::optional<double> trace_seconds;              ///< the duration of the trace; nullopt: until the end
  bool verbose = false;                             ///< print what is started and where

  /// In seconds; passed to the coordinator and the processes. nullopt: their defaults.
  std::optional<int> heartbeat_timeout, initialization_timeout, shutdown_timeout;

  /// The folder for copies of each process's output: process-I.log, on restart A process-I.attempt-A.log.
  std::optional<std::filesystem::path> log_folder;
  enum class Logs {
    kHere,
    kOnHosts
  } logs = Logs::kHere;  ///< who writes them: the launcher, or each host its own

  std::optional<std::set<int>> shown;  ///< the processes whose output is printed; nullopt: all

  /// The hosts that the user named; empty if everything runs on this one.
  std::vector<HostSlots> hosts;

  /// The placement of the processes, in blocks from process 0 on; empty: all on this host.
  std::vector<Placement> placements;
  enum class By { kRsh, kSlurm } by = By::kRsh;  ///< how processes on other hosts are started
  std::vector<std::string> rsh = {"ssh"};  ///< ssh, or its replacement: a command to which HOST COMMAND is
                                           ///< appended
  int fan_out = kHostFanOut;  ///< how many other hosts this process, and each relay, starts agents on itself
  std::string remote_tool;    ///< the lockstep tool on other hosts; empty: this one's path

  /// "HOST", "HOST:PORT": where the coordinator listens, and how the processes reach it. By default the
  /// interface's address, or else one that is determined automatically.
  std::optional<std::string> coordinator_address, interface;

  std::map<std::string, std::string> settings;   ///< options of initialize(), by their variables
  std::map<std::string, std::string> variables;  ///< the user's, for all processes

  std::optional<StatusPageOptions> status_page;  ///< a page that shows the job while it runs; nullopt: none
};

/// The launcher's own exit statuses, as in a shell.
inline constexpr int kLauncherFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kTimedOut = 124;  // as timeout(1)
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;

/// "it took longer than --timeout 60 s".
std::string describe_timeout(const JobOptions& options);

/// How long the processes have for initialize(): the option, or its default.
std::chrono::seconds time_to_initialize(const JobOptions& options);

/// Runs the program in this number of processes, on this host or on several, with the coordinator in this
/// process, until all have ended.
///
/// Their output is copied to standard output and standard error line by line, each line prefixed with the
/// process. If all run on this host, process 0 reads standard input. INT, TERM, HUP, USR1, USR2, TSTP and
/// CONT are forwarded to all processes, except signals that were ignored. After INT, TERM or HUP, the
/// processes may take as long as they need; a second INT or TERM kills them. They are also killed when this
/// process dies, and processes of a host when its connection to this one ends. Processes that they leave
/// running are killed when all have ended.
///
/// When a process fails (a status other than 0, a signal, a lost host), or ends while others need it, the
/// coordinator tells the others at once, so that their waiting calls throw. Those that remain after half of
/// the grace period get SIGTERM, and SIGKILL at its end. Then all are started again, with the next attempt's
/// number and a new coordinator, as often as the options allow, unless this process got a signal before. The
/// processes of a lost host are placed on other hosts if these have enough free places. The last lines on
/// standard error say which process failed and how, and what happened to the others.
///
/// Returns the status of the first failure of the last attempt (128 plus the signal's number for a signal),
/// or 0 if there was none; 127 or 126 if the program does not exist or cannot be executed; 128 plus the
/// signal's number if a signal to this process ended a job without a status; 124 after the timeout. Call it
/// once, from the main thread. Throws Error if a host cannot be reached, or the coordinator or the logs
/// cannot be set up.
int run_job(const JobOptions& options);

}  // namespace lockstep::cli
