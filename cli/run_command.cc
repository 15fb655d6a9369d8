#include "cli/run_command.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/job.h"

namespace lockstep::cli {

void add_run_command(CLI::App& tool, const std::vector<std::string>& command, int* status) {
  auto options = std::make_shared<JobOptions>();
  auto no_bind = std::make_shared<bool>(false);
  auto log_folder = std::make_shared<std::string>();
  CLI::App* run = tool.add_subcommand("run", "Start a program in several processes on this host");
  run->footer(
      "lockstep run -n N [OPTIONS] -- PROGRAM [ARGS...]\n\n"
      "Each line of output has its process before it. When a process fails, the others hear of it at once, "
      "those\n"
      "that do not end are ended, and the exit status is the first failure's (128 + the signal where one "
      "ended it).\n"
      "Process 0 reads standard input. INT, TERM, HUP, USR1 and USR2 are passed on; a second INT or TERM "
      "kills.");
  run->prefix_command();
  run->add_option("-n,--processes", options->num_processes, "How many processes")
      ->required()
      ->check(CLI::Range(1, 65536).description(""))
      ->option_text("N");
  run->add_option("--devices-per-process", options->devices_per_process, "CPU devices of each process")
      ->check(CLI::Range(1, 65536).description(""))
      ->option_text("D");
  run->add_flag("--no-bind", *no_bind,
                "Do not bind processes to cores (nor is it done with fewer cores than processes)");
  run->add_option(
         "--grace", options->grace,
         "From the first failure: SIGTERM to the others after half of it, SIGKILL at its end (default: 2)")
      ->check(CLI::Range(0.0, 86400.0).description(""))
      ->option_text("SECONDS");
  auto timeout = [&](const char* name, const char* variable, std::optional<int>& value,
                     const std::string& what) {
    run->add_option(name, value, what)
        ->envname(variable)
        ->check(CLI::Range(1, 1000000).description(""))
        ->option_text(std::string("SECONDS (Env: ") + variable + ")");
  };
  timeout("--heartbeat-timeout", "LOCKSTEP_HEARTBEAT_TIMEOUT", options->heartbeat_timeout,
          "A process not heard of for so long is taken for dead (default: 100)");
  timeout("--initialization-timeout", "LOCKSTEP_INITIALIZATION_TIMEOUT", options->initialization_timeout,
          "How long processes wait for each other at the start (default: 300)");
  timeout("--shutdown-timeout", "LOCKSTEP_SHUTDOWN_TIMEOUT", options->shutdown_timeout,
          "How long processes wait for each other at the end (default: 300)");
  run->add_option("--log-dir", *log_folder, "Copy each process's output, unchanged, to DIR/process-I.log")
      ->option_text("DIR");
  run->add_flag("-v,--verbose", options->verbose, "Say what is started, and on which cores");
  run->callback([=] {
    options->command = command.empty() ? run->remaining() : command;
    if (!command.empty() && !run->remaining().empty()) {
      throw CLI::ValidationError("'" + run->remaining().front() + "' before -- is not an option");
    }
    if (options->command.empty()) throw CLI::ValidationError("no program given");
    if (options->command.front().starts_with("-")) {
      throw CLI::ValidationError("unknown option '" + options->command.front() + "'");
    }
    options->bind = !*no_bind;
    if (!log_folder->empty()) options->log_folder = *log_folder;
    *status = run_job(*options);
  });
}

}  // namespace lockstep::cli
