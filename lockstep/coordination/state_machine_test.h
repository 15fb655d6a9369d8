// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/coordination/state_machine.h"

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

/// For a call that is answered with a shared value.
inline DoneWith<Value> text_of(DoneWith<std::string> done) {
  return [done = std::move(done)](Status status, const Value& value) {
    done(std::move(status), value ? *value : std::string());
  };
}

struct None {};
using Plain = Reply<None>;

inline Done plain(const Plain& reply) {
  return [done = reply.done()](Status status) { done(std::move(status), None{}); };
}

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

  Reply<std::uint64_t> join(int task, std::optional<std::uint64_t> incarnation = {}) {
    Reply<std::uint64_t> reply;
    machine_->register_task(reply.id, {task, incarnation.value_or(incarnation_of(task))}, reply.done());
    return reply;
  }
  Plain heartbeat(int task, std::optional<std::uint64_t> incarnation = {}) {
    Plain reply;
    machine_->heartbeat(reply.id, kService, task, incarnation.value_or(incarnation_of(task)), plain(reply));
    return reply;
  }
  Plain poll(int task) {
    Plain reply;
    machine_->poll_for_error(reply.id, kService, task, plain(reply));
    return reply;
  }
  Plain leave(int task) {
    Plain reply;
    machine_->shutdown_task(reply.id, kService, task, plain(reply));
    return reply;
  }
  Reply<std::int64_t> barrier(int task, std::int64_t counter = 0, std::vector<int> tasks = {},
                              std::int64_t timeout_ms = 5000, const std::string& id = "b") {
    Reply<std::int64_t> reply;
    machine_->barrier(reply.id, kService, {id, counter, timeout_ms, std::move(tasks), task}, reply.done());
    return reply;
  }
  Plain cancel_barrier(std::int64_t counter, const std::string& id = "b") {
    Plain reply;
    machine_->cancel_barrier(reply.id, kService, id, counter, plain(reply));
    return reply;
  }
  Plain report(int task, const std::string& how, bool own_error = false) {
    Plain reply;
    machine_->report_failure(reply.id, kService,
                             {own_error ? FailureKind::kEndedWithError : FailureKind::kDied, {{task}}, how},
                             plain(reply));
    return reply;
  }
  Plain report(const FailureReport& what) {
    Plain reply;
    machine_->report_failure(reply.id, kService, what, plain(reply));
    return reply;
  }
  /// A report of the launcher.
  void fails(int task, const std::string& message, FailureKind kind = FailureKind::kDied) {
    machine_->report_task_failure({kind, {task}, message});
  }
  Reply<Description> describe() {
    Reply<Description> reply;
    machine_->describe(reply.id, true, reply.done());
    return reply;
  }
  Plain insert(const std::string& key, const std::string& value, bool overwrite = false) {
    Plain reply;
    machine_->insert(reply.id, kService, key, value, overwrite, plain(reply));
    return reply;
  }
  Reply<std::string> get(const std::string& key) {
    Reply<std::string> reply;
    machine_->get(reply.id, kService, key, text_of(reply.done()));
    return reply;
  }
  Reply<std::string> try_get(const std::string& key) {
    Reply<std::string> reply;
    machine_->try_get(reply.id, kService, key, text_of(reply.done()));
    return reply;
  }
  Reply<std::string> increment(const std::string& key, std::int64_t by) {
    Reply<std::string> reply;
    machine_->increment(reply.id, kService, key, by, reply.done());
    return reply;
  }
  Reply<KeyValues> directory(const std::string& key) {
    Reply<KeyValues> reply;
    machine_->get_directory(reply.id, kService, key, reply.done());
    return reply;
  }
  Reply<WatchedTasks> watch(std::int64_t version) {
    Reply<WatchedTasks> reply;
    machine_->watch_tasks(reply.id, kService, version, reply.done());
    return reply;
  }
  Reply<std::vector<AliveTask>> alive(int task, const std::vector<int>& tasks) {
    Reply<std::vector<AliveTask>> reply;
    machine_->get_alive_tasks(reply.id, kService, task, tasks, reply.done());
    return reply;
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

  ManualClock clock_;
  std::unique_ptr<StateMachine> machine_;
};

}  // namespace lockstep::coordination
