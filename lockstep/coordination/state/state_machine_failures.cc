// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <utility>

#include "job.pb.h"
#include "lockstep/base/text.h"
#include "lockstep/coordination/protocol/graces.h"
#include "lockstep/coordination/protocol/membership.h"
#include "lockstep/coordination/state/section.h"
#include "lockstep/coordination/state/state_machine.h"

// The failures that the launcher and the processes report, and the order in which they count.

namespace lockstep::coordination {

std::string StateMachine::name_with_place(const std::vector<int>& tasks) const {
  return name_processes(tasks, [this](int task) { return tasks_[task].where; });
}

Failure StateMachine::failure(FailureKind kind, const std::vector<int>& tasks, const std::string& how) const {
  return {kind, tasks, describe_failure(name_with_place(tasks), kind, how)};
}

std::vector<int> StateMachine::not_come() const {
  std::vector<int> absent;
  for (int i = 0; i < num_tasks(); ++i) {
    if (tasks_[i].state == TaskState::kUninitialized && tasks_[i].incarnation == 0) absent.push_back(i);
  }
  return absent;
}

void StateMachine::barrier_failed(const BarrierTable::Failed& failed) {
  notes_.note_barrier(failed.id, failed.members, failure(failed.kind, failed.because_of, failed.why));
}

void StateMachine::task_failed(const Failure& failure, Answers& answers) {
  const int task = failure.processes.front();
  const TaskState state = tasks_[task].state;
  if (state == TaskState::kError || state == TaskState::kDisconnected) return;
  if (state == TaskState::kUninitialized && recoverable_)
    return;  // Another life of it may still come in time.
  const Failure cause = notes_.cause_of(failure);
  remember(cause);
  Status error = Status::of_service(Code::kUnavailable, cause.message, cause.processes.front());
  error.service_error->diverged = cause.kind == FailureKind::kDiverged;
  if (state == TaskState::kUninitialized) return fail_registration(error, answers);
  fail_job(error, answers);
  if (tasks_[task].state != TaskState::kError) put_in_error(task, error, answers);
}

void StateMachine::poll_lost(int task) {
  if (tasks_[task].state != TaskState::kConnected || tasks_[task].wants_to_leave) return;
  notes_.await(failure(FailureKind::kDied, {task}, "its connections closed"),
               clock_.now() + graces::kForBetterReports);
}

void StateMachine::count_due_reports(Answers& answers) {
  for (const Failure& failure : notes_.take_due(clock_.now())) task_failed(failure, answers);
}

void StateMachine::report_task_failure(const Failure& reported) {
  Section section(*this);
  const Failure failure{reported.kind, reported.processes, shown_lines(reported.message)};
  const int task = failure.processes.front();
  if (stopped_ || !known(task)) return;
  if (tasks_[task].state == TaskState::kDisconnected) return remember(notes_.cause_of(failure));
  notes_.await(failure, clock_.now());
  count_due_reports(section.answers);
}

void StateMachine::settle_reports() {
  Section section(*this);
  notes_.settle();
  if (!stopped_) count_due_reports(section.answers);
}

void StateMachine::set_whereabouts(int task, const Whereabouts& where) {
  std::lock_guard lock(mutex_);
  if (!known(task)) return;
  tasks_[task].launched_at = as_shown(where);
  if (tasks_[task].incarnation == 0) tasks_[task].where = tasks_[task].launched_at;
}

void StateMachine::handle(Section& section, CallId, const Caller&, const ReportFailureRequest& request,
                          Responder<ReportFailureResponse> done) {
  const FailureReportMessage& report = request.report();
  const auto kind = static_cast<FailureKind>(report.kind());
  std::vector<int> tasks;
  for (const FailureReportMessage::Subject& subject : report.subjects()) {
    const int task = subject.task_id();
    if (!known(task)) return section.answer(done, unknown(task));
    // The report is about an earlier life of the process; the present one is well.
    if (subject.incarnation() != 0 && subject.incarnation() != tasks_[task].incarnation) {
      return section.answer(done, Status{});
    }
    tasks.push_back(task);
  }
  if (tasks.empty() && kind == FailureKind::kMissing) tasks = not_come();
  section.answer(done, Status{});
  if (tasks.empty()) return;
  const Failure failure = this->failure(kind, tasks, shown_lines(report.how()));
  switch (kind) {
    case FailureKind::kDiverged:
      return notes_.note_divergence(failure);
    case FailureKind::kMissing:
      return notes_.note_barrier(kRegisterBarrier, {}, failure);
    default:
      const bool may_know_better = kind == FailureKind::kDied;
      notes_.await(failure, clock_.now() + (may_know_better ? peer_report_grace_ : Clock::Duration(0)));
      count_due_reports(section.answers);
  }
}

void StateMachine::handle(Section& section, CallId, const Caller&, const DescribeRequest& request,
                          Responder<DescribeResponse> done) {
  DescribeResponse response;
  if (request.with_membership()) response.set_membership(membership_of(infos()));
  response.set_host(where_.host);
  response.set_pid(where_.pid);
  if (held_by_) response.set_held_by(*held_by_);
  response.set_service_incarnation(incarnation_);
  section.answer(done, Status{}, std::move(response));
}

}  // namespace lockstep::coordination
