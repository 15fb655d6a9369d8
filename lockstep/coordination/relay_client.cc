// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/relay_client.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "job.grpc.pb.h"
#include "lockstep/coordination/connection.h"
#include "lockstep/coordination/credential.h"
#include "lockstep/coordination/relay_server.h"
#include "lockstep/coordination/wire.h"

namespace lockstep::coordination {
namespace {

class GrpcRelayClient : public RelayClient, grpc::ClientBidiReactor<RelayCalls, RelayAnswers> {
 public:
  GrpcRelayClient(const HostPort& address, const Identity& identity, const TlsFiles& tls)
      : secret_(identity.secret), connection_(address, identity, tls) {
    context_.set_wait_for_ready(true);
    context_.AddMetadata(kIdentityMetadata,
                         make_credential(identity, Whereabouts::own(), {kRelayStream, ""}));
    connection_.use(0, true, [this](Stubs* stubs, const Status& why) {
      if (stubs == nullptr) return end(to_grpc(why));
      stubs->job->async()->Relay(&context_, this);
      AddHold();  // of who writes outside of the stream's own calls
      StartRead(&in_);
      StartCall();
    });
  }

  ~GrpcRelayClient() override { close(); }

  void close() override {
    connection_.close();
    context_.TryCancel();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over_; });
  }

  void register_task(CallId id, const Registrant& who, DoneWith<std::uint64_t> done) override {
    RelayCall call = make(RelayCall::REGISTER, id, 0);
    call.set_task(who.task);
    call.set_incarnation(who.incarnation);
    call.set_host(who.where.host);
    call.set_pid(who.where.pid);
    call.set_attempt(who.attempt);
    send(std::move(call), [done = std::move(done)](const Status& status, RelayAnswer& answer) {
      done(status, answer.incarnation());
    });
  }

  void heartbeat(CallId id, std::uint64_t service, int task, std::uint64_t incarnation, Done done) override {
    RelayCall call = make(RelayCall::HEARTBEAT, id, service);
    call.set_task(task);
    call.set_incarnation(incarnation);
    send(std::move(call), std::move(done));
  }

  void poll_for_error(CallId id, std::uint64_t service, int task, Done done) override {
    RelayCall call = make(RelayCall::POLL, id, service);
    call.set_task(task);
    send(std::move(call), std::move(done));
  }

  void shutdown_task(CallId id, std::uint64_t service, int task, Done done) override {
    RelayCall call = make(RelayCall::SHUTDOWN, id, service);
    call.set_task(task);
    send(std::move(call), std::move(done));
  }

  void watch_tasks(CallId id, std::uint64_t service, std::int64_t version,
                   DoneWith<WatchedTasks> done) override {
    RelayCall call = make(RelayCall::WATCH, id, service);
    call.set_number(version);
    send(std::move(call), [done = std::move(done)](const Status& status, RelayAnswer& answer) {
      WatchedTasks watched{{}, answer.number()};
      for (const RelayAnswer::Task& task : answer.tasks()) {
        watched.tasks.push_back({task.task(), static_cast<TaskState>(task.state()), task.incarnation(), false,
                                 task.error(), task.error_code()});
      }
      done(status, std::move(watched));
    });
  }

  void insert(CallId id, std::uint64_t service, const std::string& key, const std::string& value,
              bool allow_overwrite, Done done) override {
    RelayCall call = make(RelayCall::INSERT, id, service, key);
    call.set_value(value);
    call.set_flag(allow_overwrite);
    send(std::move(call), std::move(done));
  }

  void get(CallId id, std::uint64_t service, const std::string& key, DoneWith<Value> done) override {
    {
      std::lock_guard lock(mutex_);
      auto& waiting = getting_[{service, key}];
      waiting.emplace_back(id, std::move(done));
      if (waiting.size() > 1) return;
    }
    send(make(RelayCall::GET, next_call_id(), service, key),
         [this, service, key](const Status& status, RelayAnswer& answer) {
           const Value value = value_of(status, answer);
           std::vector<std::pair<CallId, DoneWith<Value>>> waiting;
           {
             std::lock_guard lock(mutex_);
             auto found = getting_.extract({service, key});
             if (found) waiting = std::move(found.mapped());
           }
           for (auto& [id, done] : waiting) done(status, value);
         });
  }

  void try_get(CallId id, std::uint64_t service, const std::string& key, DoneWith<Value> done) override {
    send(make(RelayCall::TRY_GET, id, service, key),
         [done = std::move(done)](const Status& status, RelayAnswer& answer) {
           done(status, value_of(status, answer));
         });
  }

  void increment(CallId id, std::uint64_t service, const std::string& key, std::int64_t by,
                 DoneWith<std::string> done) override {
    RelayCall call = make(RelayCall::INCREMENT, id, service, key);
    call.set_number(by);
    send(std::move(call), [done = std::move(done)](const Status& status, RelayAnswer& answer) {
      done(status, answer.value());
    });
  }

  void get_directory(CallId id, std::uint64_t service, const std::string& key,
                     DoneWith<KeyValues> done) override {
    send(make(RelayCall::DIRECTORY, id, service, key),
         [done = std::move(done)](const Status& status, RelayAnswer& answer) {
           KeyValues found;
           for (RelayAnswer::Entry& entry : *answer.mutable_entries())
             found.emplace_back(std::move(*entry.mutable_key()), std::move(*entry.mutable_value()));
           done(status, std::move(found));
         });
  }

  void erase(CallId id, std::uint64_t service, const std::string& key, Done done) override {
    send(make(RelayCall::ERASE, id, service, key), std::move(done));
  }

  void barrier(CallId id, std::uint64_t service, const BarrierCall& barrier,
               DoneWith<std::int64_t> done) override {
    RelayCall call = make(RelayCall::BARRIER, id, service, barrier.id);
    call.set_number(barrier.counter);
    call.set_timeout_ms(barrier.timeout_ms);
    call.mutable_tasks()->Add(barrier.tasks.begin(), barrier.tasks.end());
    call.set_task(barrier.source);
    send(std::move(call), [done = std::move(done)](const Status& status, RelayAnswer& answer) {
      done(status, answer.number());
    });
  }

  void cancel_barrier(CallId id, std::uint64_t service, const std::string& barrier, std::int64_t counter,
                      Done done) override {
    RelayCall call = make(RelayCall::CANCEL_BARRIER, id, service, barrier);
    call.set_number(counter);
    send(std::move(call), std::move(done));
  }

  void get_alive_tasks(CallId id, std::uint64_t service, int source, const std::vector<int>& tasks,
                       DoneWith<std::vector<AliveTask>> done) override {
    RelayCall call = make(RelayCall::ALIVE, id, service);
    call.set_task(source);
    call.mutable_tasks()->Add(tasks.begin(), tasks.end());
    send(std::move(call), [done = std::move(done)](const Status& status, RelayAnswer& answer) {
      std::vector<AliveTask> alive;
      for (const RelayAnswer::Task& task : answer.tasks()) alive.push_back({task.task(), task.incarnation()});
      done(status, std::move(alive));
    });
  }

  void report_failure(CallId id, std::uint64_t service, const FailureReport& report, Done done) override {
    RelayCall call = make(RelayCall::REPORT, id, service);
    FailureReportMessage& message = *call.mutable_report();
    message.set_kind(static_cast<FailureReportMessage::Kind>(report.kind));
    message.set_how(report.how);
    for (const Subject& subject : report.subjects) {
      FailureReportMessage::Subject& added = *message.add_subjects();
      added.set_task_id(subject.task);
      added.set_incarnation(subject.incarnation);
    }
    send(std::move(call), std::move(done));
  }

  void describe(CallId id, bool with_roll, DoneWith<Description> done) override {
    RelayCall call = make(RelayCall::DESCRIBE, id, 0);
    call.set_flag(with_roll);
    send(std::move(call), [done = std::move(done)](const Status& status, RelayAnswer& answer) {
      const DescribeResponse& response = answer.description();
      Description described{.roll = response.roll(),
                            .where = {response.host(), response.pid()},
                            .service_incarnation = response.service_incarnation()};
      if (response.has_held_by()) described.task = response.held_by();
      done(status, std::move(described));
    });
  }

  void cancel(CallId id) override {
    DoneWith<Value> cancelled;
    {
      std::lock_guard lock(mutex_);
      if (!open_.contains(id)) {
        // One of several that wait for a key; the others continue.
        for (auto& [key, waiting] : getting_) {
          const auto found = std::ranges::find(waiting, id, &std::pair<CallId, DoneWith<Value>>::first);
          if (found == waiting.end()) continue;
          cancelled = std::exchange(found->second, [](const Status&, const Value&) {});
          found->first = 0;
          break;
        }
      }
    }
    if (cancelled) return cancelled(Status::bare(Code::kCancelled, "the caller has gone"), nullptr);
    std::lock_guard lock(mutex_);
    if (over_ || !open_.contains(id)) return;
    *batch_.add_calls() = make(RelayCall::CANCEL, id, 0);
    write_next();
  }

 private:
  using Handler = std::function<void(const Status&, RelayAnswer&)>;

  static RelayCall make(RelayCall::Kind kind, CallId id, std::uint64_t service, const std::string& key = "") {
    RelayCall call;
    call.set_kind(kind);
    call.set_id(id);
    call.set_service(service);
    call.set_key(key);
    return call;
  }

  static Value value_of(const Status& status, RelayAnswer& answer) {
    if (!status.ok()) return nullptr;
    return std::make_shared<const std::string>(std::move(*answer.mutable_value()));
  }

  void send(RelayCall call, Done done) {
    send(std::move(call),
         Handler([done = std::move(done)](const Status& status, RelayAnswer&) { done(status); }));
  }

  void send(RelayCall call, Handler handler) {
    Status ended;
    {
      std::lock_guard lock(mutex_);
      if (!ending_) {
        open_[call.id()] = std::move(handler);
        *batch_.add_calls() = std::move(call);
        return write_next();
      }
      ended = ended_;
    }
    RelayAnswer none;
    handler(ended, none);
  }

  /// The mutex must be held. Calls that arrive during a write are sent together.
  void write_next() {
    if (writing_ || ending_ || !challenged_ || batch_.calls_size() == 0) return;
    writing_ = true;
    out_.set_batch(std::exchange(batch_, {}).SerializeAsString());
    if (!secret_.empty()) out_.set_proof(relay_proof(secret_, challenge_, messages_, out_.batch()));
    ++messages_;
    StartWrite(&out_);
  }

  void OnWriteDone(bool) override {
    std::lock_guard lock(mutex_);
    writing_ = false;
    write_next();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      {
        std::lock_guard lock(mutex_);
        ending_ = true;
        ended_ = Status::bare(Code::kUnavailable, "the connection to the coordinator has ended");
      }
      return RemoveHold();
    }
    std::vector<std::pair<Handler, RelayAnswer*>> answered;
    {
      std::lock_guard lock(mutex_);
      if (!in_.challenge().empty()) {
        challenge_ = in_.challenge();
        challenged_ = true;
        write_next();
      }
      for (RelayAnswer& answer : *in_.mutable_answers()) {
        auto found = open_.extract(answer.id());
        if (found) answered.emplace_back(std::move(found.mapped()), &answer);
      }
    }
    for (auto& [handler, answer] : answered) {
      const Status status = answer->code() == 0 ? Status()
                                                : from_grpc({static_cast<grpc::StatusCode>(answer->code()),
                                                             answer->error(), answer->details()});
      handler(status, *answer);
    }
    in_.Clear();
    StartRead(&in_);
  }

  void OnDone(const grpc::Status& status) override { end(status); }

  void end(const grpc::Status& status) {
    std::unordered_map<CallId, Handler> open;
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
      if (!status.ok()) ended_ = from_grpc(status);
      ended_.barrier.reset();
      open = std::exchange(open_, {});
    }
    RelayAnswer none;
    for (auto& [id, handler] : open) handler(ended_, none);
    std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }

  const std::string secret_;
  grpc::ClientContext context_;
  RelayAnswers in_;
  RelayCalls out_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<CallId, Handler> open_;
  std::map<std::pair<std::uint64_t, std::string>, std::vector<std::pair<CallId, DoneWith<Value>>>> getting_;
  RelayBatch batch_;
  std::string challenge_;
  bool challenged_ = false, writing_ = false, ending_ = false, over_ = false;
  std::uint64_t messages_ = 0;
  Status ended_;
  Connection connection_;  ///< Calls back until it is destroyed.
};

}  // namespace

std::unique_ptr<RelayClient> make_relay_client(const HostPort& address, const Identity& identity,
                                               const TlsFiles& tls) {
  return std::make_unique<GrpcRelayClient>(address, identity, tls);
}

}  // namespace lockstep::coordination
