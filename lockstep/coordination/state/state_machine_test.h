// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordination.pb.h"
#include "job.pb.h"
#include "lockstep/coordination/state/state_machine.h"

namespace lockstep::coordination {
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kService = 77;

/// The answer to a call, and the number of answers.
template <class T>
struct Reply {
  struct State {
    int times = 0;
    Status status;
    T value{};
  };
  std::shared_ptr<State> state = std::make_shared<State>();
  CallId id = next_call_id();

  DoneWith<T> done() const {
    return [state = state](Status status, T value) {
      ++state->times;
      state->status = std::move(status);
      state->value = std::move(value);
    };
  }
  bool open() const { return state->times == 0; }
  Code code() const {
    EXPECT_EQ(state->times, 1) << "a call must be answered exactly once";
    return state->status.code;
  }
  const Status& status() const { return state->status; }
  const T& value() const { return state->value; }
  const std::string& message() const { return state->status.message; }
};

struct None {};
using Plain = Reply<None>;

/// A state machine with a manual clock, and each of its calls as one line. Process i has incarnation 100 + i.
class StateMachineTest : public ::testing::Test {
 protected:
  void make(int num_tasks, milliseconds shutdown_timeout = seconds(30)) {
    ServerOptions options;
    options.num_processes = num_tasks;
    options.register_timeout = seconds(60);
    options.heartbeat_timeout = seconds(10);
    options.shutdown_timeout = shutdown_timeout;
    machine_ = std::make_unique<StateMachine>(options, clock_, kService);
  }

  void start_recoverable(int num_tasks) {
    ServerOptions options;
    options.num_processes = num_tasks;
    options.heartbeat_timeout = seconds(10);
    options.recoverable = true;
    machine_ = std::make_unique<StateMachine>(options, clock_, kService);
    for (int i = 0; i < num_tasks; ++i) join(i);
  }

  void start(int num_tasks, milliseconds shutdown_timeout = seconds(30)) {
    make(num_tasks, shutdown_timeout);
    for (int i = 0; i < num_tasks; ++i) join(i);
  }

  /// The incarnation of a task unless a test gives another one.
  static std::uint64_t incarnation_of(int task) {
    return 100 + static_cast<std::uint64_t>(static_cast<std::int64_t>(task));
  }

  /// Makes a call; the reply has what `get` takes of the response.
  template <class T, class Request>
  Reply<T> ask(const Request& request, std::function<T(const ResponseTo<Request>&)> get,
               const Caller& caller = {}) {
    Reply<T> reply;
    make_call(
        *machine_, reply.id, request,
        [done = reply.done(), get](Status status, const ResponseTo<Request>& response) {
          done(std::move(status), get(response));
        },
        caller);
    return reply;
  }
  template <class Request>
  Plain tell(const Request& request) {
    return ask<None>(request, [](const auto&) { return None(); });
  }
  template <class Request>
  Reply<ResponseTo<Request>> ask(const Request& request) {
    return ask<ResponseTo<Request>>(request, [](const auto& response) { return response; });
  }

  template <class Request>
  Request of_service() const {
    Request request;
    request.mutable_incarnations()->set_service_incarnation(service_);
    return request;
  }
  template <class Request>
  Request of_task(int task) const {
    auto request = of_service<Request>();
    request.set_source_task_id(task);
    return request;
  }
  template <class Request>
  Request of_key(const std::string& key) const {
    auto request = of_service<Request>();
    request.set_key(key);
    return request;
  }

  Reply<std::uint64_t> join(int task, std::optional<std::uint64_t> incarnation = {},
                            const Caller& caller = {}) {
    jax::RegisterTaskRequest request;
    request.set_source_task_id(task);
    request.set_incarnation(incarnation.value_or(incarnation_of(task)));
    return ask<std::uint64_t>(
        request, [](const auto& response) { return response.service_incarnation(); }, caller);
  }
  Plain heartbeat(int task, std::optional<std::uint64_t> incarnation = {}) {
    auto request = of_task<jax::HeartbeatRequest>(task);
    request.set_incarnation(incarnation.value_or(incarnation_of(task)));
    return tell(request);
  }
  Plain poll(int task) { return tell(of_task<jax::PollForErrorRequest>(task)); }
  Plain leave(int task) { return tell(of_task<jax::ShutdownTaskRequest>(task)); }
  Reply<std::int64_t> barrier(int task, std::int64_t counter = 0, const std::vector<int>& tasks = {},
                              std::int64_t timeout_ms = 5000, const std::string& id = "b") {
    auto request = of_task<jax::BarrierRequest>(task);
    request.set_barrier_id(id);
    request.set_counter(counter);
    request.set_barrier_timeout_in_ms(timeout_ms);
    request.mutable_task_ids()->Add(tasks.begin(), tasks.end());
    return ask<std::int64_t>(request, [](const auto& response) { return response.counter(); });
  }
  Plain cancel_barrier(std::int64_t counter, const std::string& id = "b") {
    auto request = of_service<jax::CancelBarrierRequest>();
    request.set_barrier_id(id);
    request.set_counter(counter);
    return tell(request);
  }
  Plain report(int task, const std::string& how, bool own_error = false) {
    return report({own_error ? FailureKind::kEndedWithError : FailureKind::kDied, {{task}}, how});
  }
  Plain report(const FailureReport& what) {
    ReportFailureRequest request;
    request.set_service_incarnation(service_);
    request.mutable_report()->set_kind(static_cast<FailureReportMessage::Kind>(what.kind));
    request.mutable_report()->set_how(what.how);
    for (const Subject& subject : what.subjects) {
      auto& added = *request.mutable_report()->add_subjects();
      added.set_task_id(subject.task);
      added.set_incarnation(subject.incarnation);
    }
    return tell(request);
  }
  /// A report of the launcher.
  void fails(int task, const std::string& message, FailureKind kind = FailureKind::kDied) {
    machine_->report_task_failure({kind, {task}, message});
  }
  Reply<DescribeResponse> describe() {
    DescribeRequest request;
    request.set_with_membership(true);
    return ask(request);
  }
  Plain insert(const std::string& key, const std::string& value, bool overwrite = false) {
    auto request = of_service<jax::InsertKeyValueRequest>();
    request.mutable_kv()->set_key(key);
    request.mutable_kv()->set_value(value);
    request.set_allow_overwrite(overwrite);
    return tell(request);
  }
  Reply<std::string> get(const std::string& key) {
    return ask<std::string>(of_key<jax::GetKeyValueRequest>(key), value_in);
  }
  Reply<std::string> try_get(const std::string& key) {
    return ask<std::string>(of_key<jax::TryGetKeyValueRequest>(key), value_in);
  }
  Reply<std::string> increment(const std::string& key, std::int64_t by) {
    auto request = of_key<jax::IncrementKeyValueRequest>(key);
    request.set_increment(by);
    return ask<std::string>(request, value_in);
  }
  Reply<KeyValues> directory(const std::string& key) {
    auto request = of_service<jax::GetKeyValueDirRequest>();
    request.set_directory_key(key);
    return ask<KeyValues>(request, [](const auto& response) {
      KeyValues found;
      for (const jax::KeyValueEntry& entry : response.kv()) found.emplace_back(entry.key(), entry.value());
      return found;
    });
  }
  Plain erase(const std::string& key) { return tell(of_key<jax::DeleteKeyValueRequest>(key)); }
  Reply<jax::WatchTasksResponse> watch(std::int64_t version) {
    auto request = of_service<jax::WatchTasksRequest>();
    request.set_version_number(version);
    return ask(request);
  }
  Reply<jax::GetAliveTasksResponse> alive(int task, const std::vector<int>& tasks) {
    auto request = of_service<jax::GetAliveTasksRequest>();
    request.set_requesting_task_id(task);
    request.mutable_task_ids()->Add(tasks.begin(), tasks.end());
    return ask(request);
  }
  void pass(Clock::Duration time) {
    clock_.advance(time);
    machine_->tick();
  }
  TaskState state(int task) const { return machine_->tasks()[task].state; }

  /// Expects an error of an instance of barrier `b`, with both payloads.
  static void expect_barrier_error(const Reply<std::int64_t>& reply, Code code, std::int64_t counter) {
    EXPECT_EQ(reply.code(), code) << reply.message();
    EXPECT_TRUE(reply.status().service_error);
    ASSERT_TRUE(reply.status().barrier);
    EXPECT_EQ(reply.status().barrier->id, "b");
    EXPECT_EQ(reply.status().barrier->counter, counter);
  }

  static constexpr auto value_in = [](const auto& response) { return response.kv().value(); };

  std::uint64_t service_ = kService;  ///< the incarnation that calls are for
  ManualClock clock_;
  std::unique_ptr<StateMachine> machine_;
};

}  // namespace lockstep::coordination
