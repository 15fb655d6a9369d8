// SPDX-License-Identifier: Apache-2.0
#include "cli/coordinator/coordinator_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/base/option.h"
#include "cli/base/signals.h"
#include "cli/base/words.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/options.h"
#include "lockstep/coordination/identity/credential.h"
#include "lockstep/coordination/server/server.h"

namespace lockstep::cli {
namespace {

using coordination::TaskState;

constexpr std::string_view kName = "lockstep coordinator";

void print(const std::string& words) {
  std::fputs(own_line(kName, words).c_str(), stdout);
  std::fflush(stdout);
}

/// INT, TERM and HUP, which end the coordinator in order, but for those that were ignored, as under nohup.
class StopSignals {
 public:
  /// To be made before other threads are, so that these do not get the signals.
  StopSignals() {
    sigemptyset(&signals_);
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
      if (!is_ignored(signal)) sigaddset(&signals_, signal);
    }
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~StopSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  /// 0 where none comes within a tenth of a second.
  int wait() const {
    const timespec a_while{.tv_sec = 0, .tv_nsec = 100'000'000};
    return std::max(sigtimedwait(&signals_, nullptr, &a_while), 0);
  }

 private:
  sigset_t signals_, before_;
};

std::string say_ended(const coordination::CoordinationServer& server, int num_processes, int signal) {
  if (auto failure = server.first_failure()) return failure->message;
  int left = 0;
  for (const auto& task : server.tasks()) left += task.state == TaskState::kDisconnected ? 1 : 0;
  return fmt::format("stopped by {} before all had left: {} of {} processes have left", strsignal(signal),
                     left, num_processes);
}

/// Serves one start of the job after the other until a signal comes. The status is 0 where none is going on.
int serve_starts(coordination::CoordinationServer& server, const StopSignals& signals, int num_processes) {
  for (std::uint64_t told_of = 0;;) {
    const int signal = signals.wait();
    const auto failure = server.first_failure();
    std::uint64_t start =
        0;  // Another number in each, for the processes of each are others; 0: none has come.
    for (const auto& task : server.tasks()) start ^= task.incarnation;
    const bool is_over = failure || server.all_left() || start == 0;
    if (is_over && start != 0 && std::exchange(told_of, start) != start) {
      print((failure ? failure->message : "all processes have left") + "; waiting for the next start");
    }
    if (signal == 0) continue;
    if (!is_over) say(kName, say_ended(server, num_processes, signal));
    return is_over ? 0 : 1;
  }
}

/// Until all have left or a signal comes.
int serve_once(coordination::CoordinationServer& server, const StopSignals& signals, int num_processes) {
  int signal = 0;
  while (!server.all_left() && signal == 0) signal = signals.wait();
  const bool clean = server.all_left() && !server.first_failure();
  if (!clean) say(kName, say_ended(server, num_processes, signal));
  return clean ? 0 : 1;
}

int serve(const coordination::ServerOptions& options) {
  let_writes_fail();  // the reader of its output may leave once it has the address
  const StopSignals signals;
  coordination::CoordinationServer server;
  server.start(options);
  const std::string job =
      options.identity.job_id.empty()
          ? std::string("a job")
          : fmt::format("job {}, attempt {},", options.identity.job_id, options.identity.attempt);
  print(fmt::format("serves {} of {} process{} at {}", job, options.num_processes,
                    options.num_processes == 1 ? "" : "es", server.bound_address()));
  const int status = options.keep ? serve_starts(server, signals, options.num_processes)
                                  : serve_once(server, signals, options.num_processes);
  server.stop();
  return status;
}

}  // namespace

void add_coordinator_command(CLI::App& tool, int* status) {
  struct Given {
    coordination::ServerOptions server;
    int heartbeat = options::kHeartbeatTimeout.otherwise;
    int registering = options::kInitializationTimeout.otherwise;
    int shutdown = options::kShutdownTimeout.otherwise;
  };
  auto given = std::make_shared<Given>();
  CLI::App* command = tool.add_subcommand("coordinator", "Serve as the coordinator of one job");
  command->footer(
      "lockstep coordinator --num-processes N --bind HOST:PORT [OPTIONS]\n\n"
      "Prints its address in one line, then serves until all processes have left, or until INT, TERM or "
      "HUP;\n"
      "with --keep only until such a signal. The exit status is 0 if all left cleanly; otherwise the first\n"
      "cause is printed and the status is 1.\n"
      "The job's secret is read from LOCKSTEP_JOB_SECRET, and the files for TLS from "
      "LOCKSTEP_TLS_CERTIFICATE,\n"
      "LOCKSTEP_TLS_KEY and LOCKSTEP_TLS_AUTHORITY.");
  command->add_option("-n,--num-processes", given->server.num_processes, "The job's number of processes")
      ->required()
      ->check(CLI::Range(1, kMostProcesses).description(""))
      ->option_text("N");
  command
      ->add_option("--bind", given->server.bind_address,
                   "Where to listen (default: 127.0.0.1:0); the system chooses port 0")
      ->option_text("HOST:PORT");
  add_option(*command, options::kHeartbeatTimeout, given->heartbeat);
  add_option(*command, options::kInitializationTimeout, given->registering, "--register-timeout");
  Option<int> shutdown = options::kShutdownTimeout;
  shutdown.least = 0;
  shutdown.help = "How long shutdown() waits for the other processes; 0: it does not wait";
  add_option(*command, shutdown, given->shutdown);
  command->add_flag("--recoverable", given->server.recoverable,
                    "A process may die and return while the others continue");
  command->add_flag(
      "--keep", given->server.keep,
      "Keep running for later starts of the job: a process that arrives after all have left, or "
      "after a failure, begins the next start");
  command->add_flag(
      "--allow-jax", given->server.allow_jax,
      "Accept processes that cannot prove their identity, such as JAX's, although there is a secret");
  command->add_option("--job-id", given->server.identity.job_id, "Refuse processes that name another job")
      ->envname("LOCKSTEP_JOB_ID")
      ->option_text("ID (Env: LOCKSTEP_JOB_ID)");
  command
      ->add_option("--attempt", given->server.identity.attempt,
                   "Refuse processes of another start of the job")
      ->envname("LOCKSTEP_ATTEMPT")
      ->check(CLI::Range(0, 1000000000).description(""))
      ->option_text("K (Env: LOCKSTEP_ATTEMPT)");
  command->callback([given, status] {
    coordination::ServerOptions& server = given->server;
    server.heartbeat_timeout = std::chrono::seconds(given->heartbeat);
    server.register_timeout = std::chrono::seconds(given->registering);
    server.shutdown_timeout = std::chrono::seconds(given->shutdown);
    server.identity.secret = Environment::process().get("LOCKSTEP_JOB_SECRET").value_or("");
    coordination::refuse_short_secret(server.identity.secret);
    server.tls = coordination::TlsFiles::from(Environment::process());
    *status = serve(server);
  });
}

}  // namespace lockstep::cli
