// SPDX-License-Identifier: Apache-2.0
// How a Runtime ends: in order, because another process failed, or because this one did.

#include <unistd.h>

#include <cstdlib>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <variant>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/options.h"
#include "lockstep/coordination/protocol/graces.h"
#include "lockstep/runtime/preemption.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::runtime {
namespace {

namespace graces = coordination::graces;
using coordination::FailureKind;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string message_of(const std::exception_ptr& exception) {
  try {
    if (exception) std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is not a std::exception was not caught";
  }
  return "std::terminate was called";
}

bool is_peer_failure(const std::exception_ptr& exception) {
  try {
    if (exception) std::rethrow_exception(exception);
  } catch (const PeerFailure&) {
    return true;
  } catch (...) {
  }
  return false;
}

}  // namespace

PeerFailurePolicy peer_failure_policy(const InitializeOptions& options, const Environment& environment) {
  if (options.on_peer_failure) return *options.on_peer_failure;
  const std::string text = cluster::find_value(environment, options::kOnPeerFailure).value_or("");
  if (text == "exit") return OnPeerFailure::kExit;
  if (!text.empty() && text != "throw") {
    lockstep::fail<InitializationError>(
        "[initialize] LOCKSTEP_ON_PEER_FAILURE is '{}': expected throw or exit", shown(text));
  }
  return OnPeerFailure::kThrow;
}

bool Runtime::fail(std::exception_ptr cause) {
  std::lock_guard lock(failure_mutex_);
  if (failed_) return false;
  failure_ = cause;
  failed_.store(true, std::memory_order_release);
  if (world_) world_->abort(cause);
  return true;
}

void Runtime::launch_failed(const std::exception_ptr& cause, std::string_view program, bool others_wait) {
  const bool first = fail(cause);
  if (!first || !others_wait || !coordination_) return;
  coordination_->report_own_error(fmt::format("its launch of {} failed (at {}): {}", program,
                                              CallSiteScope::current().to_string(),
                                              first_line(message_of(cause))));
}

void Runtime::diverged(const std::vector<int>& minority, const std::string& message) {
  report_divergence(minority, message);
  fail(std::make_exception_ptr(DivergenceError(message)));
}

/// Does what the user's policy says, in addition to the exceptions of calls.
void follow(const PeerFailurePolicy& policy, const PeerFailure& failure) {
  if (const auto* callback = std::get_if<PeerFailureCallback>(&policy)) {
    if (!*callback) return;
    // The thread that reports the failure must continue; this one may live until the process ends.
    std::thread([callback = *callback, failure] {
      try {
        callback(failure);
      } catch (const std::exception& error) {
        logging::error("on_peer_failure threw: {}", error.what());
      } catch (...) {
        logging::error("on_peer_failure threw something that is not a std::exception");
      }
    }).detach();
  } else if (std::get<OnPeerFailure>(policy) == OnPeerFailure::kExit) {
    logging::error("{}; this process exits with status 1, as on_peer_failure says",
                   first_line(failure.what()));
    std::quick_exit(1);
  }
}

void Runtime::job_failed(const coordination::JobError& error) {
  std::string message = error.message;
  // Where process 0 holds the coordinator and ends because another process died, the others may hear of its
  // end before its coordinator's word on the first.
  auto seen = watch_->first();
  if (seen && seen->process != error.process && error.process == 0) {
    message = fmt::format("{}\nconsequence: {}", seen->message, message);
  }
  watch_->settle();
  if (error.process == process_index()) {
    message += fmt::format("\nconsequence: this is process {} of {}, which the others have given up",
                           process_index(), process_count());
  }
  const PeerFailure failure(message);
  const auto cause =
      error.diverged ? std::make_exception_ptr(DivergenceError(message)) : std::make_exception_ptr(failure);
  if (fail(cause)) follow(on_peer_failure_, failure);
}

void Runtime::peer_lost(int process, bool left, const std::string& doing) {
  if (left && doing.empty()) {
    // Only the coordinator knows whether it had left in order.
    return coordination_->report_failure({FailureKind::kDied, {subject(process)}, "its connections closed"});
  }
  const auto kind = left ? FailureKind::kLeftEarly : FailureKind::kDied;
  const std::string how = left ? doing : "its connections closed";
  const std::string name =
      coordination::name_process(process, {topology_->host(process).name, topology_->pid(process)});
  if (watch_->saw({coordination::describe_failure(name, kind, how), process})) {
    coordination_->report_failure({kind, {subject(process)}, how});
  }
}

coordination::Subject Runtime::subject(int process) const {
  return {process, topology_->incarnation(process)};
}

void Runtime::report_divergence(const std::vector<int>& minority, const std::string& what) {
  if (!coordination_) return;
  coordination::FailureReport report{FailureKind::kDiverged, {}, what};
  for (const int process : minority) report.subjects.push_back(subject(process));
  coordination_->report_failure(report);
  // The error may end this process, and by it the others: the coordinator is to know why.
  coordination_->finish_reports();
}

std::string Runtime::first_cause() {
  std::lock_guard lock(failure_mutex_);
  return first_line(message_of(failure_));
}

void Runtime::throw_failure(const std::string& consequence) {
  std::lock_guard lock(failure_mutex_);
  try {
    std::rethrow_exception(failure_);
  } catch (const PeerFailure& failure) {
    lockstep::fail<PeerFailure>("{}\nconsequence: {}", failure.what(), consequence);
  }
}

void Runtime::check_healthy(bool spans_processes) {
  if (failed_.load(std::memory_order_acquire)) [[unlikely]] {
    if (is_forked()) {
      lockstep::fail<Error>(
          "a computation was started in a process that was forked after initialize() from process {} of {}: "
          "it has none of that process's threads and connections; compute before the fork or in the parent, "
          "or start another program instead",
          process_index(), process_count());
    }
    throw_failure(fmt::format("process {} of {} computes nothing more", process_index(), process_count()));
  }
  if (spans_processes && left_.load(std::memory_order_relaxed)) [[unlikely]] {
    lockstep::fail<Error>(
        "a computation over devices of several processes was started after shutdown(), on process {} of {}: "
        "call shutdown() last",
        process_index(), process_count());
  }
}

bool Runtime::is_forked() const { return getpid() != pid_; }

void Runtime::shutdown() {
  if (is_forked()) return;
  if (left_.exchange(true)) return;
  if (!coordination_) return;
  const watch::Doing leaving(watch::Kind::kShutdown, "shutdown()");
  stop_preemption_watch();
  std::exception_ptr error;
  try {
    if (launch_agreement_ && !failed_) launch_agreement_->finish(*settings_.options.shutdown_timeout);
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  stall_watch_.reset();
  world_->leave();
  try {
    coordination_->shutdown();
  } catch (const std::exception&) {
    if (!error) error = std::current_exception();
  }
  if (server_) {
    // The others hear of a failure from this process, too.
    server_->wait_until_all_left(failed_ || error ? graces::kUntilTheOthersAreGone
                                                  : *settings_.options.shutdown_timeout);
    server_->stop();
  }
  if (error) std::rethrow_exception(error);
  // A failure after the program's last call would not be reported otherwise.
  if (failed_)
    throw_failure(fmt::format("shutdown ended in process {} of {}", process_index(), process_count()));
}

void Runtime::end_with_error(const std::string& what) {
  if (!coordination_) return;
  if (!failed_) coordination_->report_own_error(what);
  if (server_) std::this_thread::sleep_for(graces::kLastWords);
}

void Runtime::at_terminate() noexcept {
  if (is_forked()) return;
  if (left_.exchange(true)) return;
  const bool by_a_peer = is_peer_failure(std::current_exception());
  // The uncaught exception may have been thrown under a lock that this report needs: another thread reports,
  // or does not.
  auto told = std::make_shared<std::promise<void>>();
  std::thread([this, told, by_a_peer, what = first_line(message_of(std::current_exception()))] {
    if (!by_a_peer) {
      end_with_error(what);
    } else {
      if (coordination_) coordination_->finish_reports();
      if (server_) std::this_thread::sleep_for(graces::kLastWords);
    }
    told->set_value();
  }).detach();
  told->get_future().wait_for(graces::kTelling);
}

void Runtime::at_exit(int status) {
  if (is_forked()) return;
  if (status != 0) {
    // Another thread may still be working: the process ends without waiting for it.
    if (!left_.exchange(true)) end_with_error(fmt::format("exit status {}", status));
    return;
  }
  const auto say = [](const std::exception& error) {
    logging::error("while leaving the job at the end of the program: {}", error.what());
  };
  try {
    shutdown();
    std::lock_guard lock(failure_mutex_);
    if (failed_) say(PeerFailure(message_of(failure_)));
  } catch (const DivergenceError& error) {
    say(error);
    if (server_) std::this_thread::sleep_for(graces::kLastWords);
    // Its results may be wrong: the status is no success.
    std::fflush(nullptr);
    std::_Exit(EXIT_FAILURE);
  } catch (const std::exception& error) {
    say(error);
    if (server_) std::this_thread::sleep_for(graces::kLastWords);
  }
  if (!failed_) close();
}

void Runtime::close() {
  stall_watch_.reset();
  threads_.reset();
  programs_.reset();
  std::unique_ptr<collectives::World> world;
  {
    // A failure that the coordinator reports meanwhile finds either a world or none.
    std::lock_guard lock(failure_mutex_);
    world = std::move(world_);
  }
  world.reset();
  watch_->stop();  // which reports to the coordinator
  coordination_.reset();
  server_.reset();
}

}  // namespace lockstep::runtime
