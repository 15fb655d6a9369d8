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
#include "lockstep/coordination/identity/credential.h"
#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/protocol/wire.h"
#include "lockstep/coordination/state/fuzz_test.h"
#include "lockstep/coordination/state/state_machine_test.h"

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
  std::uint64_t service() { return choices_.one_in(20) ? choices_.bits() : service_; }
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
  /// Makes a call; `heard` is called with the answer.
  template <class Request>
  void make(CallId id, const Request& request, DoneWith<ResponseTo<Request>> heard) {
    make_call(
        *machine_, id, request,
        [this, id, heard = std::move(heard)](const Status& status, const ResponseTo<Request>& response) {
          answered(id);
          heard(status, response);
        },
        {{"h", 4711}});
  }
  template <class Request>
  void make(CallId id, const Request& request) {
    make(id, request, [](const Status&, const auto&) {});
  }

  /// A request that is not refused for its service.
  template <class Request>
  Request of_job() {
    auto request = random<Request>();
    request.mutable_incarnations()->set_service_incarnation(service_);
    return request;
  }

  /// A request of a process, with the fields that many have.
  template <class Request>
  Request random() {
    Request request;
    const std::uint64_t for_service = service();
    if constexpr (requires { request.mutable_incarnations(); }) {
      request.mutable_incarnations()->set_service_incarnation(for_service);
    }
    if constexpr (requires { request.set_service_incarnation(for_service); }) {
      request.set_service_incarnation(for_service);
    }
    if constexpr (requires { request.set_source_task_id(0); }) request.set_source_task_id(task());
    if constexpr (requires { request.set_incarnation(0); }) request.set_incarnation(incarnation());
    if constexpr (requires { request.set_counter(0); }) request.set_counter(counter());
    if constexpr (requires { request.set_version_number(0); }) {
      request.set_version_number(choices_.one_in(2) ? -1 : counter());
    }
    if constexpr (requires { request.set_barrier_id(""); }) request.set_barrier_id(choices_.of(kBarriers));
    if constexpr (requires { request.set_directory_key(""); }) request.set_directory_key(choices_.of(kKeys));
    if constexpr (requires { request.set_key(""); }) request.set_key(choices_.of(kKeys));
    if constexpr (requires { request.mutable_task_ids(); }) {
      const std::vector<int> some = tasks();
      request.mutable_task_ids()->Add(some.begin(), some.end());
    }
    return request;
  }
  /// Checks a call that never waits.
  void must_be_answered(CallId id) { EXPECT_FALSE(open_[id]) << "a call that must not wait does"; }

  void join(int task, std::uint64_t incarnation) {
    CallId id = begin();
    jax::RegisterTaskRequest request;
    request.set_source_task_id(task);
    request.set_incarnation(incarnation);
    make(id, request);
    if (machine_->incarnation() == service_) return;
    // All had left, and the job begins anew.
    service_ = machine_->incarnation();
    model_.clear();
    passed_.clear();
    late_.clear();
  }

  void step() {
    CallId id = begin();
    switch (choices_.number(0, 18)) {
      case 0:
        open_.erase(id);
        return join(task(), incarnation());
      case 1:
      case 2:
        make(id, random<jax::HeartbeatRequest>());
        return must_be_answered(id);
      case 3:
        return make(id, random<jax::PollForErrorRequest>(), [](const Status& status, const auto&) {
          EXPECT_FALSE(status.ok()) << "JAX's agents crash on it";
        });
      case 4:
        if (!choices_.one_in(4)) break;
        return make(id, random<jax::ShutdownTaskRequest>());
      case 5:
        return make(id, random<jax::WatchTasksRequest>(),
                    [this](const Status& status, const jax::WatchTasksResponse& watched) {
                      if (!status.ok()) return;
                      EXPECT_GE(watched.version_number(), version_);
                      version_ = watched.version_number();
                    });
      case 6:
        return insert(id);
      case 7:
        return make(id, random<jax::GetKeyValueRequest>());
      case 8:
        return read(id);
      case 9:
        return increment(id);
      case 10:
        make(id, random<jax::GetKeyValueDirRequest>());
        return must_be_answered(id);
      case 11: {
        if (!choices_.one_in(3)) break;
        const auto request = of_job<jax::DeleteKeyValueRequest>();
        make(id, request);
        erase_from_model(request.key());
        return must_be_answered(id);
      }
      case 12:
      case 13:
        return barrier(id);
      case 14:
        make(id, random<jax::CancelBarrierRequest>());
        return must_be_answered(id);
      case 15: {
        auto request = random<jax::GetAliveTasksRequest>();
        request.set_requesting_task_id(task());
        return make(id, request);
      }
      case 16:
        if (!choices_.one_in(6)) break;
        make(id, random_report());
        return must_be_answered(id);
      case 17:
        return any_call(id);
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

  /// Any call of the table, with bytes as its request that no process has chosen; it does not change the
  /// model of keys.
  void any_call(CallId id) {
    std::vector<const Procedure*> procedures;
    for_each_procedure([&](const Procedure& procedure) {
      const bool changes_keys = &procedure == &kInsertKeyValue || &procedure == &kIncrementKeyValue ||
                                &procedure == &kDeleteKeyValue;
      if (!changes_keys) procedures.push_back(&procedure);
    });
    std::string request = choices_.bytes(20);
    if (choices_.one_in(2)) {
      request = random<jax::BarrierRequest>().SerializeAsString();
      if (choices_.one_in(2)) request = choices_.damaged(request);
    }
    machine_->call(*choices_.of(procedures), id, {}, request,
                   [this, id](const Status&, const Payload&) { answered(id); });
  }

  void insert(CallId id) {
    auto request = of_job<jax::InsertKeyValueRequest>();
    jax::KeyValueEntry& entry = *request.mutable_kv();
    entry.set_key(choices_.of(kKeys));
    entry.set_value(choices_.one_in(2) ? "12" : choices_.bytes(5));
    request.set_allow_overwrite(choices_.one_in(2));
    make(id, request, [&](const Status& status, const auto&) {
      const std::string normal = normalize_key(entry.key());
      if (stopped(status)) return;
      EXPECT_EQ(status.ok(), request.allow_overwrite() || !model_.contains(normal));
      if (status.ok()) model_[normal] = entry.value();
    });
    must_be_answered(id);
  }
  void read(CallId id) {
    const auto request = of_job<jax::TryGetKeyValueRequest>();
    make(id, request, [&](const Status& status, const jax::TryGetKeyValueResponse& response) {
      if (stopped(status)) return;
      auto found = model_.find(normalize_key(request.key()));
      EXPECT_EQ(status.ok(), found != model_.end()) << request.key();
      if (status.ok() && found != model_.end()) {
        EXPECT_EQ(response.kv().value(), found->second);
      }
    });
    must_be_answered(id);
  }
  void increment(CallId id) {
    auto request = of_job<jax::IncrementKeyValueRequest>();
    request.set_increment(counter());
    make(id, request, [&](const Status& status, const jax::IncrementKeyValueResponse& response) {
      if (!status.ok()) return;
      const std::string& value = response.kv().value();
      std::int64_t number = 0;
      auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      EXPECT_TRUE(error == std::errc() && end == value.data() + value.size()) << value;
      model_[normalize_key(request.key())] = value;
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
    auto request = random<jax::BarrierRequest>();
    request.set_barrier_timeout_in_ms(choices_.number(-5, 20000));
    make(id, request,
         [this, name = request.barrier_id()](const Status& status, const jax::BarrierResponse& response) {
           if (status.ok()) passed_.insert({name, response.counter()});
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

  ReportFailureRequest random_report() {
    auto request = random<ReportFailureRequest>();
    FailureReportMessage& report = *request.mutable_report();
    report.set_kind(static_cast<FailureReportMessage::Kind>(choices_.number(0, 5)));
    report.set_how("how");
    for (const int subject : tasks()) {
      FailureReportMessage::Subject& added = *report.add_subjects();
      added.set_task_id(subject);
      added.set_incarnation(choices_.one_in(4) ? 100u : 0u);
    }
    return request;
  }

  Choices choices_;
  ManualClock clock_;
  ServerOptions options_;
  int num_tasks_;
  std::unique_ptr<StateMachine> machine_;
  std::map<CallId, bool> open_;  ///< Whether it still waits.
  std::uint64_t service_ = kService;
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
    Caller caller;
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
