// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/coordination/address.h"
#include "lockstep/coordination/credential.h"
#include "lockstep/coordination/fuzz_test.h"
#include "lockstep/coordination/state_machine_test.h"
#include "lockstep/coordination/wire.h"

// Random calls into the state machine, and random bytes into what decodes; no network.

namespace lockstep::coordination {
namespace {

using Steady = std::chrono::steady_clock;

const std::vector<std::string> kKeys = {
    "", "/", "a", "a/b", "//a//b/", "a/b/c", "n", "n/m", "long/key/of/parts"};
const std::vector<std::string> kBarriers = {"b", "c", "", "[Init]Wait_for_all_tasks_to_register"};

/// One life of a state machine under random calls, held against what must be so whatever is called.
class RandomJob {
 public:
  RandomJob(std::uint64_t stream) : choices_(stream) {
    num_tasks_ = static_cast<int>(choices_.number(1, 5));
    options_.num_processes = num_tasks_;
    options_.register_timeout = seconds(60);
    options_.heartbeat_timeout = seconds(10);
    options_.shutdown_timeout = seconds(choices_.one_in(4) ? 0 : 30);
    options_.recoverable = choices_.one_in(3);
    options_.peer_report_grace = milliseconds(choices_.one_in(2) ? 0 : 500);
    machine_ = std::make_unique<StateMachine>(options_, clock_, kService);
  }

  void run(int steps) {
    if (choices_.number(0, 3) > 0) {
      for (int task = 0; task < num_tasks_; ++task) join(task, 100);
    }
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      step();
      check();
    }
    machine_->stop();
    for (const auto& [id, open] : open_) EXPECT_FALSE(open) << "call " << id << " was never answered";
    open_.clear();
    step();
    for (const auto& [id, open] : open_) EXPECT_FALSE(open) << "a call after the end was not answered";
  }

 private:
  int task() {
    return static_cast<int>(choices_.one_in(20) ? choices_.number(-3, 8)
                                                : choices_.number(0, num_tasks_ - 1));
  }
  std::uint64_t service() { return choices_.one_in(20) ? choices_.bits() : kService; }
  std::uint64_t incarnation() {
    return static_cast<std::uint64_t>(choices_.one_in(4) ? choices_.number(101, 103) : 100);
  }
  std::int64_t counter() {
    return choices_.one_in(10) ? static_cast<std::int64_t>(choices_.bits()) : choices_.number(0, 3);
  }
  std::vector<int> tasks() {
    std::vector<int> some;
    if (choices_.one_in(2)) return some;
    for (std::int64_t i = choices_.number(1, num_tasks_); i > 0; --i) some.push_back(task());
    return some;
  }

  CallId begin() {
    CallId id = next_call_id();
    open_[id] = true;
    return id;
  }
  void answered(CallId id) {
    auto found = open_.find(id);
    if (found == open_.end()) return;  // Of before the end, and answered then.
    EXPECT_TRUE(found->second) << "a call was answered twice";
    found->second = false;
  }
  Done done(CallId id) {
    return [this, id](const Status&) { answered(id); };
  }
  template <class T>
  DoneWith<T> done_with(CallId id) {
    return [this, id](const Status&, const T&) { answered(id); };
  }
  /// Checks a call that never waits.
  void must_be_answered(CallId id) { EXPECT_FALSE(open_[id]) << "a call that must not wait does"; }

  void join(int task, std::uint64_t incarnation) {
    CallId id = begin();
    machine_->register_task(id, {task, incarnation, {"h", task}}, done_with<std::uint64_t>(id));
  }

  void step() {
    CallId id = begin();
    switch (choices_.number(0, 17)) {
      case 0:
        open_.erase(id);
        return join(task(), incarnation());
      case 1:
      case 2:
        machine_->heartbeat(id, service(), task(), incarnation(), done(id));
        return must_be_answered(id);
      case 3:
        return machine_->poll_for_error(id, service(), task(), [this, id](const Status& status) {
          answered(id);
          EXPECT_FALSE(status.ok()) << "JAX's agents crash on it";
        });
      case 4:
        if (!choices_.one_in(4)) break;
        return machine_->shutdown_task(id, service(), task(), done(id));
      case 5:
        return machine_->watch_tasks(id, service(), choices_.one_in(2) ? -1 : counter(),
                                     [this, id](const Status& status, const WatchedTasks& watched) {
                                       answered(id);
                                       if (!status.ok()) return;
                                       EXPECT_GE(watched.version, version_);
                                       version_ = watched.version;
                                     });
      case 6:
        return insert(id);
      case 7:
        return machine_->get(id, service(), choices_.of(kKeys), done_with<Value>(id));
      case 8:
        return read(id);
      case 9:
        return increment(id);
      case 10:
        machine_->get_directory(id, service(), choices_.of(kKeys), done_with<KeyValues>(id));
        return must_be_answered(id);
      case 11: {
        if (!choices_.one_in(3)) break;
        const std::string key = choices_.of(kKeys);
        machine_->erase(id, kService, key, done(id));
        erase_from_model(key);
        return must_be_answered(id);
      }
      case 12:
      case 13:
        return barrier(id);
      case 14:
        machine_->cancel_barrier(id, service(), choices_.of(kBarriers), counter(), done(id));
        return must_be_answered(id);
      case 15:
        return machine_->get_alive_tasks(id, service(), task(), tasks(),
                                         done_with<std::vector<AliveTask>>(id));
      case 16:
        if (!choices_.one_in(6)) break;
        machine_->report_failure(id, service(), random_report(), done(id));
        return must_be_answered(id);
      default:
        break;
    }
    open_.erase(id);
    if (choices_.one_in(2)) {
      clock_.advance(milliseconds(choices_.number(1, choices_.one_in(10) ? 40000 : 2000)));
      machine_->tick();
    } else if (!open_.empty()) {
      auto some = open_.lower_bound(
          static_cast<CallId>(choices_.number(static_cast<std::int64_t>(open_.begin()->first),
                                              static_cast<std::int64_t>(open_.rbegin()->first))));
      const CallId cancelled = some->first;
      machine_->cancel(cancelled);
      EXPECT_FALSE(open_[cancelled]) << "a cancelled call is still open";
    }
  }

  void insert(CallId id) {
    const std::string key = choices_.of(kKeys), value = choices_.one_in(2) ? "12" : choices_.bytes(5);
    const bool overwrite = choices_.one_in(2);
    machine_->insert(id, kService, key, value, overwrite, [&](const Status& status) {
      answered(id);
      const std::string normal = normalize_key(key);
      if (stopped(status)) return;
      EXPECT_EQ(status.ok(), overwrite || !model_.contains(normal));
      if (status.ok()) model_[normal] = value;
    });
    must_be_answered(id);
  }
  void read(CallId id) {
    const std::string key = choices_.of(kKeys);
    machine_->try_get(id, kService, key, [&](const Status& status, const Value& value) {
      answered(id);
      if (stopped(status)) return;
      auto found = model_.find(normalize_key(key));
      EXPECT_EQ(status.ok(), found != model_.end()) << key;
      if (status.ok() && found != model_.end()) {
        EXPECT_EQ(*value, found->second);
      }
    });
    must_be_answered(id);
  }
  void increment(CallId id) {
    const std::string key = choices_.of(kKeys);
    machine_->increment(id, kService, key, counter(), [&](const Status& status, const std::string& value) {
      answered(id);
      if (!status.ok()) return;
      std::int64_t number = 0;
      auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      EXPECT_TRUE(error == std::errc() && end == value.data() + value.size()) << value;
      model_[normalize_key(key)] = value;
    });
    must_be_answered(id);
  }
  void erase_from_model(const std::string& key) {
    const std::string normal = normalize_key(key);
    std::erase_if(model_, [&](const auto& each) {
      return each.first == normal || each.first.starts_with(normal + "/");
    });
  }
  void barrier(CallId id) {
    BarrierCall call{choices_.of(kBarriers), counter(), choices_.number(-5, 20000), tasks(), task()};
    machine_->barrier(id, service(), call,
                      [this, id, name = call.id](const Status& status, std::int64_t instance) {
                        answered(id);
                        if (status.ok()) passed_.insert({name, instance});
                        if (status.barrier && status.code == Code::kDeadlineExceeded)
                          late_.insert({name, status.barrier->counter});
                      });
  }
  static bool stopped(const Status& status) { return status.code == Code::kUnavailable; }

  void check() {
    const std::vector<TaskInfo> infos = machine_->tasks();
    bool any_came = false, any_missing = false, any_failed = false, all_left = true;
    for (const TaskInfo& info : infos) {
      any_came |= info.state == TaskState::kConnected || info.state == TaskState::kDisconnected;
      any_missing |= info.state == TaskState::kUninitialized;
      any_failed |= info.state == TaskState::kError;
      all_left &= info.state == TaskState::kDisconnected || info.state == TaskState::kError;
      EXPECT_EQ(info.state == TaskState::kError, !info.error.empty());
    }
    EXPECT_FALSE(any_came && any_missing && !any_failed) << "all come together";
    EXPECT_EQ(machine_->all_left(), all_left);
    const auto failure = machine_->first_failure();
    EXPECT_TRUE(failure || !any_failed);
    EXPECT_TRUE(!first_failure_ || failure == first_failure_) << "the first cause changed";
    first_failure_ = failure;
    for (const auto& instance : late_) {
      EXPECT_FALSE(passed_.contains(instance)) << "a barrier passed for some and was late for others";
    }
  }

  FailureReport random_report() {
    FailureReport report{static_cast<FailureKind>(choices_.number(0, 5)), {}, "how"};
    for (const int subject : tasks()) report.subjects.push_back({subject, choices_.one_in(4) ? 100u : 0u});
    return report;
  }

  Choices choices_;
  ManualClock clock_;
  ServerOptions options_;
  int num_tasks_;
  std::unique_ptr<StateMachine> machine_;
  std::map<CallId, bool> open_;  ///< Whether it still waits.
  std::int64_t version_ = -1;
  std::map<std::string, std::string> model_;
  std::set<std::pair<std::string, std::int64_t>> passed_, late_;
  std::optional<Failure> first_failure_;
};

TEST(Fuzz, StateMachine_RandomCalls_KeepItsInvariants) {
  const auto deadline = fuzz_deadline(0.3);
  std::uint64_t lives = 0;
  while (Steady::now() < deadline && !HasFailure()) {
    SCOPED_TRACE("seed " + std::to_string(Choices::seed()) + ", life " + std::to_string(lives));
    RandomJob(lives++).run(200);
  }
  EXPECT_GT(lives, 10u);
}

TEST(Fuzz, Decoders_AnyBytes_AreReadOrRefused) {
  const auto deadline = fuzz_deadline(0.1);
  Choices choices(1);
  route_grpc_log();
  const Gate gate({"job", 1, "secret"}, false);
  const std::string good = make_credential({"job", 1, "secret"}, {"host", 4711}, {"Request", "bytes"});
  std::uint64_t tries = 0;
  for (; Steady::now() < deadline && !HasFailure(); ++tries) {
    const std::string bytes = choices.one_in(2) ? choices.bytes(200) : choices.damaged(good);
    Gate::Caller caller;
    // The gate skips fields that it does not know; the text must be the one that was proved.
    if (!gate.refusal(
            bytes,
            [] {
              return SignedRequest{"Request", "bytes"};
            },
            caller)) {
      EXPECT_EQ(caller.where.to_string(), " (host host, pid 4711)");
    }

    Status status =
        Status::of_service(static_cast<Code>(choices.of(std::vector<int>{3, 4, 9, 10, 13, 14})), "why");
    if (choices.one_in(2)) status.service_error->source_task = static_cast<int>(choices.number(-5, 5));
    if (choices.one_in(2)) status.barrier = BarrierInstance{"id", choices.number(-5, 5)};
    if (choices.one_in(2)) status.right_service_incarnation = choices.bits();
    const grpc::Status wire = to_grpc(status);
    const Status back = from_grpc(wire);
    EXPECT_EQ(back.code, status.code);
    EXPECT_EQ(back.service_error->source_task, status.service_error->source_task);
    EXPECT_EQ(back.right_service_incarnation, status.right_service_incarnation);
    EXPECT_EQ(back.barrier.has_value(), status.barrier.has_value());
    const int any_code = static_cast<int>(choices.number(-2, 20));
    from_grpc(
        grpc::Status(static_cast<grpc::StatusCode>(any_code), bytes, choices.damaged(wire.error_details())));

    try {
      const std::string text = choices.one_in(2) ? choices.bytes(20) : choices.damaged("[fd00::1]:8476");
      const HostPort address = parse_address(text);
      EXPECT_GE(address.port, 0) << text;
      EXPECT_LE(address.port, 65535) << text;
      EXPECT_FALSE(address.host.empty()) << text;
    } catch (const InitializationError&) {
    }
  }
  EXPECT_GT(tries, 100u);
}

}  // namespace
}  // namespace lockstep::coordination
