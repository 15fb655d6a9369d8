// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "coordination.pb.h"
#include "job.pb.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/coordination/client/agent_impl.h"
#include "lockstep/coordination/protocol/graces.h"
#include "lockstep/coordination/protocol/pending.h"
#include "lockstep/coordination/state/coordinator.h"

// Reports of failures that an agent sends and receives.
namespace lockstep::coordination {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kLongestHow = 8 << 10;

/// The request for a report, with a text that the protocol takes.
ReportFailureRequest on_wire(std::uint64_t service, const FailureReport& report) {
  ReportFailureRequest request;
  request.set_service_incarnation(service);
  FailureReportMessage& message = *request.mutable_report();
  message.set_kind(static_cast<FailureReportMessage::Kind>(report.kind));
  message.set_how(shown_lines(report.how, kLongestHow));
  for (const Subject& subject : report.subjects) {
    FailureReportMessage::Subject& added = *message.add_subjects();
    added.set_task_id(subject.task);
    added.set_incarnation(subject.incarnation);
  }
  return request;
}

}  // namespace

void Agent::job_failed(JobError error) {
  std::lock_guard lock(mutex_);
  if (error_ || stopping_) return;
  error_ = std::move(error);
  wake_.notify_all();
}

void Agent::fail(const JobError& cause) {
  std::set<CallId> open;
  {
    std::lock_guard lock(mutex_);
    if (error_ || stopping_) return;
    error_ = cause;
    open = ended_by_error_;
    wake_.notify_all();
  }
  for (CallId id : open) service_->cancel(id);
}

void Agent::report_failure(const FailureReport& report) {
  CallId id = next_call_id();
  {
    std::lock_guard lock(mutex_);
    if (service_incarnation_ == 0 || stopping_ || error_) return;
    background_calls_.insert(id);
    reports_.insert(id);
  }
  make_call(*service_, id, on_wire(service_incarnation(), report),
            [this, id](const Status&, const ReportFailureResponse&) { background_call_over(id); });
}

void Agent::finish_reports() {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, graces::kForReports, [this] { return reports_.empty(); });
}

void Agent::report_missing() {
  const auto described = ask(*service_, graces::kForReports, DescribeRequest());
  if (!described || !described->status.ok()) return;
  const std::string how =
      fmt::format("{} waited {} s for it", self(), seconds(options_.initialization_timeout));
  ask(*service_, graces::kForReports,
      on_wire(described->value.service_incarnation(), {FailureKind::kMissing, {}, how}));
}

void Agent::report_own_error(const std::string& what) {
  std::uint64_t service = service_incarnation();
  if (service == 0) return;
  finish_reports();
  ask(*service_, graces::kForReports,
      on_wire(service, {FailureKind::kEndedWithError, {{options_.process_id, incarnation_}}, what}));
}

std::string Agent::coordinator_lost(const std::string& how, const std::string& detail) const {
  std::lock_guard lock(mutex_);
  std::string at = "the coordinator at " + options_.address;
  if (!coordinator_) return fmt::format("{} is gone: {}\nlast heard: {}", at, how, detail);
  if (!coordinator_->task) {
    return fmt::format("{}{} is gone: {}\nlast heard: {}", at, coordinator_->where.to_string(), how, detail);
  }
  return fmt::format("{} died: {}\nit held {}: {}", name_process(*coordinator_->task, coordinator_->where),
                     how, at, detail);
}

// Listening for errors, and heartbeats.

CallId Agent::begin_background_call() {
  std::lock_guard lock(mutex_);
  CallId id = next_call_id();
  background_calls_.insert(id);
  return id;
}

void Agent::background_call_over(CallId id) {
  std::lock_guard lock(mutex_);
  background_calls_.erase(id);
  reports_.erase(id);
  wake_.notify_all();
}

void Agent::begin_background() {
  last_answered_heartbeat_ = SteadyClock::now();
  CallId ask_who = begin_background_call();
  make_call(*service_, ask_who, DescribeRequest(),
            [this, ask_who](const Status& status, const DescribeResponse& described) {
              if (status.ok()) {
                std::lock_guard lock(mutex_);
                coordinator_ = Holder{{described.host(), described.pid()}, {}};
                if (described.has_held_by()) coordinator_->task = described.held_by();
              }
              background_call_over(ask_who);
            });
  CallId poll = begin_background_call();
  auto polling = request<jax::PollForErrorRequest>();
  polling.set_source_task_id(options_.process_id);
  make_call(*service_, poll, polling, [this, poll](const Status& status, const jax::PollForErrorResponse&) {
    bool leaving;
    {
      std::lock_guard lock(mutex_);
      leaving = leaving_;
    }
    if (!status.service_error) {
      auto holder = [&] {
        std::lock_guard lock(mutex_);
        return coordinator_ ? coordinator_->task : std::nullopt;
      }();
      job_failed({coordinator_lost("its connections closed", status.message), holder});
    } else if (status.code != Code::kCancelled && !(leaving && !status.service_error->source_task)) {
      // CANCELLED is what the service says to who has left; that not all leave together, it says to
      // who waits for it.
      job_failed({status.message, status.service_error->source_task, status.service_error->diverged});
    }
    background_call_over(poll);
  });
  background_ = std::thread([this] { run_background(); });
}

void Agent::end_background() {
  finish_reports();
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (background_.joinable()) background_.join();
  std::set<CallId> open;
  {
    std::lock_guard lock(mutex_);
    open = background_calls_;
  }
  for (CallId id : open) service_->cancel(id);
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return background_calls_.empty(); });
}

void Agent::run_background() {
  bool reported = false;
  auto next_heartbeat = SteadyClock::now() + options_.heartbeat_interval;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait_until(lock, next_heartbeat, [&] { return stopping_ || (error_ && !reported); });
    if (stopping_) return;
    if (error_ && !reported) {
      reported = true;
      std::set<CallId> open = ended_by_error_;
      JobError error = *error_;
      lock.unlock();
      for (CallId id : open) service_->cancel(id);
      if (options_.on_error) options_.on_error(error);
      lock.lock();
      continue;
    }
    auto now = SteadyClock::now();
    if (now < next_heartbeat) continue;
    // It was this process that stood still: what the coordinator has answered meanwhile is still to be read.
    if (now - next_heartbeat > options_.heartbeat_interval) last_answered_heartbeat_ = now;
    next_heartbeat = now + options_.heartbeat_interval;
    if (!error_ && !leaving_ && now - last_answered_heartbeat_ > options_.heartbeat_timeout) {
      auto holder = coordinator_ ? coordinator_->task : std::nullopt;
      lock.unlock();
      job_failed({coordinator_lost(fmt::format("no heartbeat for {} s", seconds(options_.heartbeat_timeout)),
                                   "its host is down, or the network between is"),
                  holder});
      lock.lock();
      continue;
    }
    if (heartbeat_open_) continue;
    heartbeat_open_ = true;
    lock.unlock();
    CallId id = begin_background_call();
    auto heartbeat = request<jax::HeartbeatRequest>();
    heartbeat.set_source_task_id(options_.process_id);
    heartbeat.set_incarnation(incarnation_);
    make_call(*service_, id, heartbeat, [this, id](const Status& status, const jax::HeartbeatResponse&) {
      if (status.service_error)
        job_failed({status.message, status.service_error->source_task, status.service_error->diverged});
      {
        std::lock_guard answered(mutex_);
        if (status.ok()) last_answered_heartbeat_ = SteadyClock::now();
        heartbeat_open_ = false;
      }
      background_call_over(id);
    });
    lock.lock();
  }
}

}  // namespace lockstep::coordination
