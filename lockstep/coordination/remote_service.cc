// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/remote_service.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "coordination.grpc.pb.h"
#include "job.grpc.pb.h"
#include "lockstep/coordination/connection.h"
#include "lockstep/coordination/credential.h"
#include "lockstep/coordination/proof.h"
#include "lockstep/coordination/proved_socket.h"
#include "lockstep/coordination/wire.h"

namespace lockstep::coordination {
namespace {

namespace pb = xla::coordination;

class GrpcRemoteService : public RemoteService {
 public:
  GrpcRemoteService(const HostPort& address, const Identity& identity, const TlsFiles& tls)
      : address_(address), identity_(identity), connection_(address, identity, tls) {}

  ~GrpcRemoteService() override {
    connection_.close();
    std::unique_lock lock(mutex_);
    for (auto& [id, call] : open_) call->cancel();
    all_answered_.wait(lock, [this] { return open_.empty(); });
  }

  bool is_connected() const override { return connection_.is_connected(); }

  void prove(CallId id, Done done) override {
    if (identity_.secret.empty()) return done({});
    auto call = open<ProveRequest, ProveResponse>(id);
    if (connection_.greets()) {
      return connection_.use(id, false,
                             [=, this](Stubs*, const Status& status) { close(id, [&] { done(status); }); });
    }
    ask_for_proof(id, false, call->context, call->request, call->response,
                  [=, this](const Status& status) { close(id, [&] { done(status); }); });
  }

  void register_task(CallId id, const Registrant& who, DoneWith<std::uint64_t> done) override {
    RegisterCall* call = keep(id, std::make_unique<RegisterCall>());
    call->context.set_wait_for_ready(true);
    call->proof_context.set_wait_for_ready(true);
    call->request.set_source_task_id(who.task);
    call->request.set_incarnation(who.incarnation);
    auto join = [=, this] {
      const auto answered = [=, this](const grpc::Status& status) {
        close(id, [&] { done(from_grpc(status), call->response.service_incarnation()); });
      };
      sign_call(*call);
      start(
          id, true,
          [=](Stubs& stubs) {
            stubs.coordination->async()->RegisterTask(&call->context, &call->request, &call->response,
                                                      answered);
          },
          answered);
    };
    if (identity_.secret.empty() || connection_.greets()) return join();
    ask_for_proof(id, true, call->proof_context, call->proof_request, call->proof,
                  [=, this](const Status& status) {
                    if (status.ok()) return join();
                    close(id, [&] { done(status, 0); });
                  });
  }

  void heartbeat(CallId id, std::uint64_t service, int task, std::uint64_t incarnation, Done done) override {
    auto call = open<pb::HeartbeatRequest, pb::HeartbeatResponse>(id, service);
    call->request.set_source_task_id(task);
    call->request.set_incarnation(incarnation);
    start(
        id, call, &Stubs::coordination, [](auto& async, auto... given) { async.Heartbeat(given...); },
        answer(id, std::move(done)));
  }

  void poll_for_error(CallId id, std::uint64_t service, int task, Done done) override {
    auto call = open<pb::PollForErrorRequest, pb::PollForErrorResponse>(id, service);
    call->request.set_source_task_id(task);
    start(
        id, call, &Stubs::coordination, [](auto& async, auto... given) { async.PollForError(given...); },
        answer(id, std::move(done)));
  }

  void shutdown_task(CallId id, std::uint64_t service, int task, Done done) override {
    auto call = open<pb::ShutdownTaskRequest, pb::ShutdownTaskResponse>(id, service);
    call->request.set_source_task_id(task);
    start(
        id, call, &Stubs::coordination, [](auto& async, auto... given) { async.ShutdownTask(given...); },
        answer(id, std::move(done)));
  }

  void watch_tasks(CallId id, std::uint64_t service, std::int64_t version,
                   DoneWith<WatchedTasks> done) override {
    auto call = open<pb::WatchTasksRequest, pb::WatchTasksResponse>(id, service);
    call->request.set_version_number(version);
    start(
        id, call, &Stubs::coordination, [](auto& async, auto... given) { async.WatchTasks(given...); },
        [=, this](const grpc::Status& status) {
          WatchedTasks watched;
          watched.version = call->response.version_number();
          for (const pb::TaskInfo& task : call->response.task_state()) {
            watched.tasks.push_back({task.task_id(), static_cast<TaskState>(task.state()), task.incarnation(),
                                     false, task.error_message(), task.error_code()});
          }
          close(id, [&] { done(from_grpc(status), std::move(watched)); });
        });
  }

  void insert(CallId id, std::uint64_t service, const std::string& key, const std::string& value,
              bool allow_overwrite, Done done) override {
    auto call = open<pb::InsertKeyValueRequest, pb::InsertKeyValueResponse>(id, service);
    call->request.mutable_kv()->set_key(key);
    call->request.mutable_kv()->set_value(value);
    call->request.set_allow_overwrite(allow_overwrite);
    start(
        id, call, &Stubs::coordination, [](auto& async, auto... given) { async.InsertKeyValue(given...); },
        answer(id, std::move(done)));
  }

  void get(CallId id, std::uint64_t service, const std::string& key, DoneWith<Value> done) override {
    auto call = open<pb::GetKeyValueRequest, pb::GetKeyValueResponse>(id, service);
    call->request.set_key(key);
    start(
        id, call, &Stubs::coordination, [](auto& async, auto... given) { async.GetKeyValue(given...); },
        answer_value(id, std::move(done), call));
  }

  void try_get(CallId id, std::uint64_t service, const std::string& key, DoneWith<Value> done) override {
    auto call = open<pb::TryGetKeyValueRequest, pb::TryGetKeyValueResponse>(id, service);
    call->request.set_key(key);
    start(
        id, call, &Stubs::coordination, [](auto& async, auto... given) { async.TryGetKeyValue(given...); },
        answer_value(id, std::move(done), call));
  }

  void increment(CallId id, std::uint64_t service, const std::string& key, std::int64_t by,
                 DoneWith<std::string> done) override {
    auto call = open<pb::IncrementKeyValueRequest, pb::IncrementKeyValueResponse>(id, service);
    call->request.set_key(key);
    call->request.set_increment(by);
    start(
        id, call, &Stubs::coordination, [](auto& async, auto... given) { async.IncrementKeyValue(given...); },
        [=, this](const grpc::Status& status) {
          close(id, [&] { done(from_grpc(status), call->response.kv().value()); });
        });
  }

  void get_directory(CallId id, std::uint64_t service, const std::string& key,
                     DoneWith<KeyValues> done) override {
    auto call = open<pb::GetKeyValueDirRequest, pb::GetKeyValueDirResponse>(id, service);
    call->request.set_directory_key(key);
    start(
        id, call, &Stubs::coordination, [](auto& async, auto... given) { async.GetKeyValueDir(given...); },
        [=, this](const grpc::Status& status) {
          KeyValues found;
          for (const pb::KeyValueEntry& entry : call->response.kv())
            found.emplace_back(entry.key(), entry.value());
          close(id, [&] { done(from_grpc(status), std::move(found)); });
        });
  }

  void erase(CallId id, std::uint64_t service, const std::string& key, Done done) override {
    auto call = open<pb::DeleteKeyValueRequest, pb::DeleteKeyValueResponse>(id, service);
    call->request.set_key(key);
    call->request.set_is_directory(true);
    start(
        id, call, &Stubs::coordination, [](auto& async, auto... given) { async.DeleteKeyValue(given...); },
        answer(id, std::move(done)));
  }

  void barrier(CallId id, std::uint64_t service, const BarrierCall& barrier,
               DoneWith<std::int64_t> done) override {
    auto call = open<pb::BarrierRequest, pb::BarrierResponse>(id, service);
    call->request.set_barrier_id(barrier.id);
    call->request.set_counter(barrier.counter);
    call->request.set_barrier_timeout_in_ms(barrier.timeout_ms);
    call->request.mutable_task_ids()->Add(barrier.tasks.begin(), barrier.tasks.end());
    call->request.set_source_task_id(barrier.source);
    start(
        id, call, &Stubs::coordination, [](auto& async, auto... given) { async.Barrier(given...); },
        [=, this](const grpc::Status& status) {
          close(id, [&] { done(from_grpc(status), call->response.counter()); });
        });
  }

  void cancel_barrier(CallId id, std::uint64_t service, const std::string& barrier, std::int64_t counter,
                      Done done) override {
    auto call = open<pb::CancelBarrierRequest, pb::CancelBarrierResponse>(id, service);
    call->request.set_barrier_id(barrier);
    call->request.set_counter(counter);
    start(
        id, call, &Stubs::coordination, [](auto& async, auto... given) { async.CancelBarrier(given...); },
        answer(id, std::move(done)));
  }

  void get_alive_tasks(CallId id, std::uint64_t service, int source, const std::vector<int>& tasks,
                       DoneWith<std::vector<AliveTask>> done) override {
    auto call = open<pb::GetAliveTasksRequest, pb::GetAliveTasksResponse>(id, service);
    call->request.set_requesting_task_id(source);
    call->request.mutable_task_ids()->Add(tasks.begin(), tasks.end());
    start(
        id, call, &Stubs::coordination, [](auto& async, auto... given) { async.GetAliveTasks(given...); },
        [=, this](const grpc::Status& status) {
          std::vector<AliveTask> alive;
          int count = std::min(call->response.alive_task_ids_size(), call->response.incarnations_size());
          for (int i = 0; i < count; ++i) {
            alive.push_back({call->response.alive_task_ids(i), call->response.incarnations(i)});
          }
          close(id, [&] { done(from_grpc(status), std::move(alive)); });
        });
  }

  void report_failure(CallId id, std::uint64_t service, const FailureReport& report, Done done) override {
    auto call = open<ReportFailureRequest, ReportFailureResponse>(id);
    call->request.set_service_incarnation(service);
    FailureReportMessage& message = *call->request.mutable_report();
    message.set_kind(static_cast<FailureReportMessage::Kind>(report.kind));
    message.set_how(report.how);
    for (const Subject& subject : report.subjects) {
      FailureReportMessage::Subject& added = *message.add_subjects();
      added.set_task_id(subject.task);
      added.set_incarnation(subject.incarnation);
    }
    start(
        id, call, &Stubs::job, [](auto& async, auto... given) { async.ReportFailure(given...); },
        answer(id, std::move(done)));
  }

  void describe(CallId id, bool with_roll, DoneWith<Description> done) override {
    auto call = open<DescribeRequest, DescribeResponse>(id);
    call->request.set_with_roll(with_roll);
    start(
        id, call, &Stubs::job, [](auto& async, auto... given) { async.Describe(given...); },
        [=, this](const grpc::Status& status) {
          Description described{.roll = call->response.roll(),
                                .where = {call->response.host(), call->response.pid()},
                                .service_incarnation = call->response.service_incarnation()};
          if (call->response.has_held_by()) described.task = call->response.held_by();
          close(id, [&] { done(from_grpc(status), std::move(described)); });
        });
  }

  void cancel(CallId id) override {
    if (connection_.cancel(id)) return;
    std::lock_guard lock(mutex_);
    if (auto found = open_.find(id); found != open_.end()) found->second->cancel();
  }

 private:
  struct Open {
    grpc::ClientContext context;
    virtual ~Open() = default;
    virtual void cancel() { context.TryCancel(); }
  };
  template <class Request, class Response>
  struct OpenCall : Open {
    Request request;
    Response response;
  };

  /// Two calls after each other, of which both are cancelled.
  struct RegisterCall : OpenCall<pb::RegisterTaskRequest, pb::RegisterTaskResponse> {
    grpc::ClientContext proof_context;
    ProveRequest proof_request;
    ProveResponse proof;
    void cancel() override {
      this->proof_context.TryCancel();
      this->context.TryCancel();
    }
  };

  /// The call lives until its close(). Callbacks hold it by a plain pointer: a context holds the channel, and
  /// if a callback on a thread of gRPC released the last reference, the destruction of the channel would wait
  /// for that same thread.
  template <class Call>
  Call* keep(CallId id, std::unique_ptr<Call> call) {
    Call* kept = call.get();
    std::lock_guard lock(mutex_);
    open_[id] = std::move(call);
    return kept;
  }

  template <class Request, class Response>
  OpenCall<Request, Response>* open(CallId id) {
    return keep(id, std::make_unique<OpenCall<Request, Response>>());
  }

  /// To be called once the request is whole.
  template <class Call>
  void sign_call(Call& call) {
    sign_call(call.context, call.request);
  }
  template <class Request>
  void sign_call(grpc::ClientContext& context, const Request& request) {
    const SignedRequest whole = identity_.secret.empty() ? SignedRequest() : sign(request);
    context.AddMetadata(kIdentityMetadata, make_credential(identity_, where_, whole));
  }

  /// Starts a call, by begin(stubs), once there is a connection; otherwise it ends with the reason.
  template <class Begin>
  void start(CallId id, bool waits, Begin begin, std::function<void(const grpc::Status&)> answered) {
    connection_.use(id, waits, [begin, answered = std::move(answered)](Stubs* stubs, const Status& why) {
      if (stubs == nullptr) return answered(to_grpc(why));
      begin(*stubs);
    });
  }

  /// The same for a call whose request is whole, of which `method` begins it.
  template <class Call, class Stub, class Method>
  void start(CallId id, Call* call, std::unique_ptr<Stub> Stubs::*stub, Method method,
             std::function<void(grpc::Status)> answered) {
    sign_call(*call);
    start(
        id, false,
        [=](Stubs& stubs) {
          method(*(stubs.*stub)->async(), &call->context, &call->request, &call->response, answered);
        },
        answered);
  }

  void ask_for_proof(CallId id, bool waits, grpc::ClientContext& context, ProveRequest& request,
                     ProveResponse& response, Done done) {
    request.set_nonce(random_nonce());
    sign_call(context, request);
    const auto answered = [=, this, &request, &response](const grpc::Status& status) {
      const bool another = status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
      if (!status.ok() && !another) return done(from_grpc(status));
      const std::string proof = coordinators_proof(identity_.secret, request.nonce());
      if (!another && same_code(response.proof(), proof)) return done({});
      done(unproved(address_));
    };
    start(
        id, waits,
        [=, &context, &request, &response](Stubs& stubs) {
          stubs.job->async()->Prove(&context, &request, &response, answered);
        },
        answered);
  }

  template <class Request, class Response>
  OpenCall<Request, Response>* open(CallId id, std::uint64_t service) {
    auto call = open<Request, Response>(id);
    call->request.mutable_incarnations()->set_service_incarnation(service);
    return call;
  }

  template <class Answer>
  void close(CallId id, Answer answer) {
    answer();
    std::lock_guard lock(mutex_);
    open_.erase(id);
    all_answered_.notify_all();
  }

  std::function<void(grpc::Status)> answer(CallId id, Done done) {
    return [=, this](const grpc::Status& status) { close(id, [&] { done(from_grpc(status)); }); };
  }

  template <class Call>
  std::function<void(grpc::Status)> answer_value(CallId id, DoneWith<Value> done, Call* call) {
    return [=, this](const grpc::Status& status) {
      Value value;
      if (status.ok()) {
        value = std::make_shared<const std::string>(std::move(*call->response.mutable_kv()->mutable_value()));
      }
      close(id, [&] { done(from_grpc(status), std::move(value)); });
    };
  }

  const HostPort address_;
  const Identity identity_;
  const Whereabouts where_ = Whereabouts::own();
  std::mutex mutex_;
  std::condition_variable all_answered_;
  std::unordered_map<CallId, std::unique_ptr<Open>> open_;
  Connection connection_;  ///< Calls back until it is destroyed.
};

}  // namespace

std::unique_ptr<RemoteService> make_remote_service(const HostPort& address, const Identity& identity,
                                                   const TlsFiles& tls) {
  return std::make_unique<GrpcRemoteService>(address, identity, tls);
}

}  // namespace lockstep::coordination
