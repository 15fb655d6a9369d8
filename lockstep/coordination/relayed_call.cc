// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/relayed_call.h"

#include <utility>
#include <vector>

#include "job.pb.h"
#include "lockstep/coordination/wire.h"

namespace lockstep::coordination {
namespace {

RelayAnswer answer_of(std::uint64_t id, const Status& status) {
  RelayAnswer answer;
  answer.set_id(id);
  if (status.ok()) return answer;
  const grpc::Status wire = to_grpc(status);
  answer.set_code(wire.error_code());
  answer.set_error(wire.error_message());
  answer.set_details(wire.error_details());
  return answer;
}

}  // namespace

void make_relayed_call(Service& service, CallId id, const RelayCall& call, const GiveAnswer& give) {
  const std::uint64_t theirs = call.id();
  const auto done = [give, theirs](const Status& status) { give(answer_of(theirs, status), nullptr); };
  const auto with_number = [give, theirs](const Status& status, std::int64_t number) {
    RelayAnswer answer = answer_of(theirs, status);
    answer.set_number(number);
    give(std::move(answer), nullptr);
  };
  const auto with_value = [give, theirs](const Status& status, const Value& value) {
    give(answer_of(theirs, status), status.ok() ? value : nullptr);
  };
  const auto tasks = [give, theirs](const Status& status, const WatchedTasks& watched) {
    RelayAnswer answer = answer_of(theirs, status);
    answer.set_number(watched.version);
    for (const TaskInfo& task : watched.tasks) {
      RelayAnswer::Task& added = *answer.add_tasks();
      added.set_task(task.task);
      added.set_state(static_cast<int>(task.state));
      added.set_incarnation(task.incarnation);
      added.set_error(task.error);
      added.set_error_code(task.error_code);
    }
    give(std::move(answer), nullptr);
  };
  switch (call.kind()) {
    case RelayCall::REGISTER:
      return service.register_task(
          id, {call.task(), call.incarnation(), {call.host(), call.pid()}, call.attempt()},
          [give, theirs](const Status& status, std::uint64_t service) {
            RelayAnswer answer = answer_of(theirs, status);
            answer.set_incarnation(service);
            give(std::move(answer), nullptr);
          });
    case RelayCall::HEARTBEAT:
      return service.heartbeat(id, call.service(), call.task(), call.incarnation(), done);
    case RelayCall::POLL:
      return service.poll_for_error(id, call.service(), call.task(), done);
    case RelayCall::SHUTDOWN:
      return service.shutdown_task(id, call.service(), call.task(), done);
    case RelayCall::WATCH:
      return service.watch_tasks(id, call.service(), call.number(), tasks);
    case RelayCall::INSERT:
      return service.insert(id, call.service(), call.key(), call.value(), call.flag(), done);
    case RelayCall::GET:
      return service.get(id, call.service(), call.key(), with_value);
    case RelayCall::TRY_GET:
      return service.try_get(id, call.service(), call.key(), with_value);
    case RelayCall::INCREMENT:
      return service.increment(id, call.service(), call.key(), call.number(),
                               [give, theirs](const Status& status, const std::string& value) {
                                 RelayAnswer answer = answer_of(theirs, status);
                                 answer.set_value(value);
                                 give(std::move(answer), nullptr);
                               });
    case RelayCall::DIRECTORY:
      return service.get_directory(id, call.service(), call.key(),
                                   [give, theirs](const Status& status, const KeyValues& found) {
                                     RelayAnswer answer = answer_of(theirs, status);
                                     for (const auto& [key, value] : found) {
                                       RelayAnswer::Entry& entry = *answer.add_entries();
                                       entry.set_key(key);
                                       entry.set_value(value);
                                     }
                                     give(std::move(answer), nullptr);
                                   });
    case RelayCall::ERASE:
      return service.erase(id, call.service(), call.key(), done);
    case RelayCall::BARRIER:
      return service.barrier(id, call.service(),
                             {call.key(),
                              call.number(),
                              call.timeout_ms(),
                              {call.tasks().begin(), call.tasks().end()},
                              call.task()},
                             with_number);
    case RelayCall::CANCEL_BARRIER:
      return service.cancel_barrier(id, call.service(), call.key(), call.number(), done);
    case RelayCall::ALIVE:
      return service.get_alive_tasks(
          id, call.service(), call.task(), {call.tasks().begin(), call.tasks().end()},
          [give, theirs](const Status& status, const std::vector<AliveTask>& alive) {
            RelayAnswer answer = answer_of(theirs, status);
            for (const AliveTask& task : alive) {
              RelayAnswer::Task& added = *answer.add_tasks();
              added.set_task(task.task);
              added.set_incarnation(task.incarnation);
            }
            give(std::move(answer), nullptr);
          });
    case RelayCall::REPORT: {
      FailureReport report{static_cast<FailureKind>(call.report().kind()), {}, call.report().how()};
      for (const auto& subject : call.report().subjects())
        report.subjects.push_back({subject.task_id(), subject.incarnation()});
      return service.report_failure(id, call.service(), report, done);
    }
    case RelayCall::DESCRIBE:
      return service.describe(id, call.flag(),
                              [give, theirs](const Status& status, const Description& described) {
                                RelayAnswer answer = answer_of(theirs, status);
                                DescribeResponse& description = *answer.mutable_description();
                                description.set_roll(described.roll);
                                description.set_service_incarnation(described.service_incarnation);
                                description.set_host(described.where.host);
                                description.set_pid(described.where.pid);
                                if (described.task) description.set_held_by(*described.task);
                                give(std::move(answer), nullptr);
                              });
    default:
      return done(Status::bare(Code::kUnimplemented, "the coordinator does not know such a call"));
  }
}

}  // namespace lockstep::coordination
