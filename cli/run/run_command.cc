// SPDX-License-Identifier: Apache-2.0
#include "cli/run/run_command.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <system_error>

#include "cli/base/option.h"
#include "cli/hosts/hosts.h"
#include "cli/hosts/job_variables.h"
#include "cli/hosts/remote_command.h"
#include "cli/hosts/slurm.h"
#include "cli/run/job.h"
#include "cli/status/http_access.h"
#include "cli/trace/trace_file.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/hex.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/options.h"
#include "lockstep/base/read_file.h"
#include "lockstep/cluster/options.h"
#include "lockstep/storage/url.h"

namespace lockstep::cli {
namespace {

constexpr char kMore[] = R"(lockstep run -n N [OPTIONS] -- PROGRAM [ARGS...]

  lockstep run -n 4 -- ./train
  lockstep run --hosts a:2,b:2 -- ./train
  salloc -N2 -n8 lockstep run --slurm -- ./train

Each line of output is prefixed with its process, [3] or, on several hosts, [3@host], in colour on a terminal (unless
NO_COLOR is set). When a process fails, the others are told at once, and those that do not end are ended. The exit
status is the status of the first failure, or 128 + its signal; 127 if the program does not exist, 126 if it cannot be
executed, and 2 for a wrong command line.

If all processes run here, process 0 reads standard input. INT, TERM, HUP, USR1 and USR2 are forwarded. After INT, TERM
or HUP the processes may take as long as they need to end; a second INT or TERM, from 1 s on, kills them, and so does
a second Ctrl-C at any time.

Each process gets these variables, which initialize() reads: LOCKSTEP_LAUNCHER=1, LOCKSTEP_COORDINATOR_ADDRESS,
LOCKSTEP_COORDINATOR_PROXY (empty: none), LOCKSTEP_PROCESS_ID, LOCKSTEP_NUM_PROCESSES, LOCKSTEP_JOB_ID,
LOCKSTEP_JOB_SECRET, and LOCKSTEP_ATTEMPT, the number of restarts so far; if its host has several processes,
LOCKSTEP_LOCAL_PROCESS_ID, its number there; the variables of the options that are given, and LOCKSTEP_LOG_DIR; on a
terminal LOCKSTEP_TERMINAL=1; and NPROC, its number of threads, unless that is set.

A host file has a line for each host: HOST, HOST:N or HOST slots=N; # begins a comment. Processes are placed on the
hosts in blocks, in the order of the hosts. Other hosts need this tool at the same path (or --remote-tool), and the
program and the current folder at the same paths. LOCKSTEP_... and JAX_... variables are sent to them, others only
with -x.)";

struct Given {
  std::optional<int> num_processes;
  bool no_bind = false, slurm = false, no_status_token = false;
  std::optional<int> status_port;
  std::string trace_file, hosts, hostfile, rsh = "ssh", log_folder, log_folder_on_hosts, shown,
                                           coordinator_address, max_restarts = "0", status_host;
  bool encrypt = false;
  std::vector<std::string> variables;

  /// Each adds an option of initialize(), if it was given, to those that the processes get.
  std::vector<std::function<void(std::map<std::string, std::string>&)>> passed_on;
};

std::string read_hostfile(const std::string& name) {
  FileRead read = read_file(name);
  if (read.error != 0) fail("cannot read the host file {}: {}", name, std::strerror(read.error));
  return std::move(read.bytes);
}

/// The path, which must not be that of an object store.
std::string local(const char* option, const std::string& path) {
  try {
    return storage::local_path(path);
  } catch (const StorageError& error) {
    fail("{}: {}", option, error.what());
  }
}

int parse_fan_out(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1)
    fail("LOCKSTEP_HOST_FAN_OUT='{}' is not a number of hosts: expected 1 or more", text);
  return number;
}

void settle_status_page(const Given& given, JobOptions& options) {
  const std::string token = Environment::process().get("LOCKSTEP_STATUS_TOKEN").value_or("");
  unsetenv("LOCKSTEP_STATUS_TOKEN");  // the processes need not know it
  if (!given.status_port) {
    if (!given.status_host.empty()) fail("--status-host needs --status-port");
    return;
  }
  options.status_page.emplace().port = *given.status_port;
  if (!given.status_host.empty()) options.status_page->host = given.status_host;
  if (given.no_status_token) return;
  if (!token.empty() && !is_token(token))
    fail("LOCKSTEP_STATUS_TOKEN must have at least 16 letters, digits, - or _");
  options.status_page->token = token.empty() ? random_hex(16) : token;
}

// Settles options that need more than a look at one word of the command line.
void settle(const Given& given, JobOptions& options) {
  if (given.slurm) {
    options.by = JobOptions::By::kSlurm;
    for (const Placement& place : slurm_placement(Environment::process(), given.num_processes))
      options.hosts.push_back({.host = place.host, .slots = place.count});
    // Requests for the allocation's tasks do not apply to the agents that srun starts.
    for (const char* name : {"SLURM_NTASKS_PER_NODE", "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK"})
      unsetenv(name);
  } else if (!given.hosts.empty()) {
    options.hosts = parse_hosts(given.hosts);
  } else if (!given.hostfile.empty()) {
    options.hosts = parse_hostfile(read_hostfile(given.hostfile), given.hostfile);
  } else if (!given.num_processes) {
    fail("-n is required, unless --hosts, --hostfile or --slurm determines the number of processes");
  }
  options.num_processes = given.num_processes.value_or(0);
  if (!options.hosts.empty()) {
    options.placements = place_processes(options.hosts, given.num_processes);
    options.num_processes = options.placements.back().first + options.placements.back().count;
  }
  options.max_restarts = parse_restart_limit(given.max_restarts);
  options.rsh = split_words(given.rsh);
  if (const auto fan_out = Environment::process().get("LOCKSTEP_HOST_FAN_OUT"))
    options.fan_out = parse_fan_out(*fan_out);
  options.bind = !given.no_bind;
  if (options.report_folder) options.report_folder = local("--report-dir", options.report_folder->string());
  if (!given.trace_file.empty()) {
    options.trace_file = local("--trace", given.trace_file);
    // Not a FIFO: closing it again would be the end for its reader.
    std::error_code ignored;
    if (!std::filesystem::is_fifo(*options.trace_file, ignored)) TraceFile(*options.trace_file);
  } else if (options.trace_seconds || options.trace_after > 0) {
    fail("--trace-after and --trace-seconds need --trace FILE");
  }
  if (!given.log_folder.empty()) options.log_folder = local("--log-dir", given.log_folder);
  if (!given.log_folder_on_hosts.empty()) {
    options.log_folder = local("--log-dir-on-hosts", given.log_folder_on_hosts);
    options.logs = JobOptions::Logs::kOnHosts;
  }
  if (!given.shown.empty() && given.shown != "all")
    options.shown = parse_processes("--show-output", given.shown, options.num_processes);
  if (!given.coordinator_address.empty()) options.coordinator_address = given.coordinator_address;
  if (options.interface == "") options.interface.reset();
  for (const auto& pass_on : given.passed_on) pass_on(options.settings);
  if (given.encrypt) options.settings.emplace(options::kDataTls.variable, "1");
  for (const std::string& variable : given.variables) options.variables.insert(parse_variable(variable));
  // Values that the processes would refuse are refused once, before they are started.
  cluster::find_value(Environment::process(), options::kNumCpuDevices);
  cluster::find_value(Environment::process(), options::kThreads);
  settle_status_page(given, options);
}

}  // namespace

void add_run_command(CLI::App& tool, const std::vector<std::string>& command, int* status) {
  auto options = std::make_shared<JobOptions>();
  auto given = std::make_shared<Given>();
  CLI::App* run =
      tool.add_subcommand("run", "Start a program in several processes, on this host or on others");
  run->footer(kMore);
  run->prefix_command();
  const auto pass_on = [&](const auto& option, auto& value, const std::string& name = {}) {
    given->passed_on.push_back([&value, variable = std::string(option.variable)](auto& settings) {
      if (value) settings[variable] = fmt::to_string(*value);
    });
    return add_option(*run, option, value, name);
  };
  auto count = [](int from, int to) { return CLI::Range(from, to).description(""); };
  run->add_option("-n,--processes", given->num_processes,
                  "The number of processes (default: all places of the hosts)")
      ->check(count(1, kMostOfALauncher))
      ->option_text("N");
  // Its variable is left to the processes: -x may set it.
  pass_on(options::kNumCpuDevices, options->devices_per_process, "--devices-per-process")
      ->envname("")
      ->option_text("D");
  run->add_option("-x", given->variables,
                  "Set the variable for all processes, to its value here if none is given")
      ->option_text("NAME[=VALUE]")
      ->allow_extra_args(false);
  run->add_flag(
      "--no-bind", given->no_bind,
      "Do not bind processes to cores (they are never bound if the cores cannot be shared out evenly)");
  run->add_option("--max-restarts", given->max_restarts,
                  "Start all again when a process has failed or a host was lost: K times, or K times within "
                  "a time (s, m, h, d), such as 10/1h (default: 0)")
      ->option_text("K[/TIME]");
  run->add_option("--restart-delay", options->restart_delay,
                  "The longest wait before a restart. The first restart does not wait; then the wait is 1 s, "
                  "doubled after each start that fails within a minute (default: 60)")
      ->check(count(0, 1000000))
      ->option_text("SECONDS");
  run->add_option(
         "--timeout", options->timeout,
         "End the job, including restarts, after this time: SIGTERM, then SIGKILL after the grace period; "
         "the exit status is 124")
      ->check(count(1, 100000000))
      ->option_text("SECONDS");
  run->add_option("--report-dir", options->report_folder,
                  "When an attempt fails, write what each process did to DIR/JOB.attempt-A: summary.txt, "
                  "processes.json")
      ->option_text("DIR");
  add_option(*run, options::kStallWarning, options->stall_warning);
  add_option(*run, options::kStallTimeout, options->stall_timeout);
  run->add_option(
         "--trace", given->trace_file,
         "Write the activities of all processes, as a trace for https://ui.perfetto.dev (restart A: with "
         ".attempt-A before the extension)")
      ->option_text("FILE");
  run->add_option("--trace-after", options->trace_after,
                  "Begin the trace this long after the processes' start (default: 0)")
      ->check(CLI::Range(0.0, 1e8).description(""))
      ->option_text("SECONDS");
  run->add_option("--trace-seconds", options->trace_seconds,
                  "End the trace after this time (default: with the job)")
      ->check(CLI::Range(0.0, 1e8).description(""))
      ->option_text("SECONDS");
  run->add_option(
         "--grace", options->grace,
         "From the first failure: SIGTERM to the others after half of it, SIGKILL at its end (default: 2)")
      ->check(CLI::Range(0.0, 86400.0).description(""))
      ->option_text("SECONDS");
  pass_on(options::kHeartbeatTimeout, options->heartbeat_timeout);
  pass_on(options::kInitializationTimeout, options->initialization_timeout);
  pass_on(options::kShutdownTimeout, options->shutdown_timeout);
  CLI::Option* log_folder = run->add_option(
      "--log-dir", given->log_folder,
      "Copy each process's output, unchanged, to DIR/process-I.log (restart A: process-I.attempt-A.log); "
      "processes write metrics there, too (LOCKSTEP_LOG_DIR)");
  log_folder->option_text("DIR");
  run->add_option("--log-dir-on-hosts", given->log_folder_on_hosts,
                  "The same, but each host writes the logs and metrics of its own processes to its own DIR")
      ->option_text("DIR")
      ->excludes(log_folder);
  run->add_option(
         "--show-output", given->shown,
         "Print the output of these processes only: all, none, or numbers such as 0,8-15 (default: all). On "
         "other hosts, the output of others stays there, unless --log-dir or --report-dir needs it")
      ->option_text("PROCESSES");
  const std::string page = "Status page";
  run->add_option(
         "--status-port", given->status_port,
         "Serve a page about the job, /metrics for Prometheus and /status.json at this port of this host's "
         "loopback address; 0: any that is free. The address is printed")
      ->check(count(0, 65535))
      ->option_text("PORT")
      ->group(page);
  run->add_option(
         "--status-host", given->status_host,
         "The address or name at which to serve it, for access from other hosts (default: 127.0.0.1)")
      ->option_text("HOST")
      ->group(page);
  run->add_flag("--no-status-token", given->no_status_token,
                "Do not require the token, which is LOCKSTEP_STATUS_TOKEN, or random")
      ->group(page);
  run->add_flag("-v,--verbose", options->verbose, "Print what is started, where, and on which cores");

  const std::string group = "Several hosts";
  CLI::Option* hosts =
      run->add_option("--hosts", given->hosts, "The hosts, each with its number of processes")
          ->option_text("HOST:N,...")
          ->group(group);
  CLI::Option* hostfile =
      run->add_option("--hostfile", given->hostfile, "The same in a file")->option_text("FILE")->group(group);
  CLI::Option* slurm =
      run->add_flag("--slurm", given->slurm, "Use the nodes of the current Slurm allocation, through srun")
          ->group(group);
  hosts->excludes(hostfile)->excludes(slurm);
  hostfile->excludes(slurm);
  run->add_option(
         "--rsh", given->rsh,
         "The command that runs another one on a host, like ssh; HOST COMMAND is appended (default: ssh)")
      ->envname("LOCKSTEP_RSH")
      ->option_text("COMMAND (Env: LOCKSTEP_RSH)")
      ->group(group);
  run->add_option("--wait-for-hosts", options->wait_for_hosts,
                  "How long to try to reach a host that does not answer, at the start and at each restart "
                  "(default: 0)")
      ->check(count(0, 1000000))
      ->option_text("SECONDS")
      ->group(group);
  run->add_option("--remote-tool", options->remote_tool,
                  "The path of this tool on other hosts (default: the same as here)")
      ->option_text("PATH")
      ->group(group);
  pass_on(options::kInterface, options->interface)->group(group);
  run->add_flag("--encrypt", given->encrypt,
                fmt::format("{} ({}=1)", options::kDataTls.help, options::kDataTls.variable))
      ->group(group);
  run->add_option(
         "--coordinator-address", given->coordinator_address,
         "This host's address for the coordinator, as others reach it (default: detected; any free port)")
      ->option_text("HOST[:PORT]")
      ->group(group);

  run->callback([=] {
    options->command = command.empty() ? run->remaining() : command;
    if (!command.empty() && !run->remaining().empty()) {
      throw CLI::ValidationError("'" + run->remaining().front() + "' before -- is not an option");
    }
    if (options->command.empty()) throw CLI::ValidationError("no program given");
    if (options->command.front().starts_with("-")) {
      throw CLI::ValidationError("unknown option '" + options->command.front() + "'");
    }
    try {
      settle(*given, *options);
    } catch (const Error& error) {
      throw CLI::ValidationError(error.what());
    }
    *status = run_job(*options);
  });
}

}  // namespace lockstep::cli
