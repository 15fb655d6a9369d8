#include "lockstep/coordination/remote_service.h"

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "coordination.grpc.pb.h"
#include "job.grpc.pb.h"
#include "lockstep/coordination/credential.h"
#include "lockstep/coordination/wire.h"

namespace lockstep::coordination {
namespace {

namespace pb = xla::coordination;

std::shared_ptr<grpc::Channel> connect(const HostPort& address, const TlsFiles& tls) {
  route_grpc_log();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000);
  return grpc::CreateCustomChannel(address.to_string(), channel_credentials(tls), arguments);
}

class RemoteService : public Service {
 public:
  RemoteService(const HostPort& address, const Identity& identity, const TlsFiles& tls)
      : credential_(make_credential(identity, Whereabouts::own())),
        channel_(connect(address, tls)),
        stub_(pb::CoordinationService::NewStub(channel_)),
        job_stub_(Job::NewStub(channel_)),
        async_(*stub_->async()) {}

  ~RemoteService() override {
    std::unique_lock lock(mutex_);
    for (auto& [id, call] : open_) call->context.TryCancel();
    all_answered_.wait(lock, [this] { return open_.empty(); });
  }

  void register_task(CallId id, const Registrant& who, DoneWith<std::uint64_t> done) override {
    auto call = open<pb::RegisterTaskRequest, pb::RegisterTaskResponse>(id);
    call->context.set_wait_for_ready(true);
    call->request.set_source_task_id(who.task);
    call->request.set_incarnation(who.incarnation);
    async_.RegisterTask(&call->context, &call->request, &call->response,
                        [=, this](const grpc::Status& status) {
                          close(id, [&] { done(from_grpc(status), call->response.service_incarnation()); });
                        });
  }

  void heartbeat(CallId id, std::uint64_t service, int task, std::uint64_t incarnation, Done done) override {
    auto call = open<pb::HeartbeatRequest, pb::HeartbeatResponse>(id, service);
    call->request.set_source_task_id(task);
    call->request.set_incarnation(incarnation);
    async_.Heartbeat(&call->context, &call->request, &call->response, answer(id, std::move(done)));
  }

  void poll_for_error(CallId id, std::uint64_t service, int task, Done done) override {
    auto call = open<pb::PollForErrorRequest, pb::PollForErrorResponse>(id, service);
    call->request.set_source_task_id(task);
    async_.PollForError(&call->context, &call->request, &call->response, answer(id, std::move(done)));
  }

  void shutdown_task(CallId id, std::uint64_t service, int task, Done done) override {
    auto call = open<pb::ShutdownTaskRequest, pb::ShutdownTaskResponse>(id, service);
    call->request.set_source_task_id(task);
    async_.ShutdownTask(&call->context, &call->request, &call->response, answer(id, std::move(done)));
  }

  void watch_tasks(CallId id, std::uint64_t service, std::int64_t version,
                   DoneWith<WatchedTasks> done) override {
    auto call = open<pb::WatchTasksRequest, pb::WatchTasksResponse>(id, service);
    call->request.set_version_number(version);
    async_.WatchTasks(&call->context, &call->request, &call->response, [=, this](const grpc::Status& status) {
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
    async_.InsertKeyValue(&call->context, &call->request, &call->response, answer(id, std::move(done)));
  }

  void get(CallId id, std::uint64_t service, const std::string& key, DoneWith<Value> done) override {
    auto call = open<pb::GetKeyValueRequest, pb::GetKeyValueResponse>(id, service);
    call->request.set_key(key);
    async_.GetKeyValue(&call->context, &call->request, &call->response,
                       answer_value(id, std::move(done), call));
  }

  void try_get(CallId id, std::uint64_t service, const std::string& key, DoneWith<Value> done) override {
    auto call = open<pb::TryGetKeyValueRequest, pb::TryGetKeyValueResponse>(id, service);
    call->request.set_key(key);
    async_.TryGetKeyValue(&call->context, &call->request, &call->response,
                          answer_value(id, std::move(done), call));
  }

  void increment(CallId id, std::uint64_t service, const std::string& key, std::int64_t by,
                 DoneWith<std::string> done) override {
    auto call = open<pb::IncrementKeyValueRequest, pb::IncrementKeyValueResponse>(id, service);
    call->request.set_key(key);
    call->request.set_increment(by);
    async_.IncrementKeyValue(&call->context, &call->request, &call->response,
                             [=, this](const grpc::Status& status) {
                               close(id, [&] { done(from_grpc(status), call->response.kv().value()); });
                             });
  }

  void get_directory(CallId id, std::uint64_t service, const std::string& key,
                     DoneWith<KeyValues> done) override {
    auto call = open<pb::GetKeyValueDirRequest, pb::GetKeyValueDirResponse>(id, service);
    call->request.set_directory_key(key);
    async_.GetKeyValueDir(&call->context, &call->request, &call->response,
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
    async_.DeleteKeyValue(&call->context, &call->request, &call->response, answer(id, std::move(done)));
  }

  void barrier(CallId id, std::uint64_t service, const BarrierCall& barrier,
               DoneWith<std::int64_t> done) override {
    auto call = open<pb::BarrierRequest, pb::BarrierResponse>(id, service);
    call->request.set_barrier_id(barrier.id);
    call->request.set_counter(barrier.counter);
    call->request.set_barrier_timeout_in_ms(barrier.timeout_ms);
    call->request.mutable_task_ids()->Add(barrier.tasks.begin(), barrier.tasks.end());
    call->request.set_source_task_id(barrier.source);
    async_.Barrier(&call->context, &call->request, &call->response, [=, this](const grpc::Status& status) {
      close(id, [&] { done(from_grpc(status), call->response.counter()); });
    });
  }

  void cancel_barrier(CallId id, std::uint64_t service, const std::string& barrier, std::int64_t counter,
                      Done done) override {
    auto call = open<pb::CancelBarrierRequest, pb::CancelBarrierResponse>(id, service);
    call->request.set_barrier_id(barrier);
    call->request.set_counter(counter);
    async_.CancelBarrier(&call->context, &call->request, &call->response, answer(id, std::move(done)));
  }

  void get_alive_tasks(CallId id, std::uint64_t service, int source, const std::vector<int>& tasks,
                       DoneWith<std::vector<AliveTask>> done) override {
    auto call = open<pb::GetAliveTasksRequest, pb::GetAliveTasksResponse>(id, service);
    call->request.set_requesting_task_id(source);
    call->request.mutable_task_ids()->Add(tasks.begin(), tasks.end());
    async_.GetAliveTasks(
        &call->context, &call->request, &call->response, [=, this](const grpc::Status& status) {
          std::vector<AliveTask> alive;
          int count = std::min(call->response.alive_task_ids_size(), call->response.incarnations_size());
          for (int i = 0; i < count; ++i) {
            alive.push_back({call->response.alive_task_ids(i), call->response.incarnations(i)});
          }
          close(id, [&] { done(from_grpc(status), std::move(alive)); });
        });
  }

  void report_failure(CallId id, std::uint64_t service, int task, const std::string& how, FailureKind kind,
                      Done done) override {
    auto call = open<ReportFailureRequest, ReportFailureResponse>(id);
    call->request.set_service_incarnation(service);
    call->request.set_task_id(task);
    call->request.set_how(how);
    call->request.set_own_error(kind == FailureKind::kEndedWithError);
    call->request.set_left_early(kind == FailureKind::kLeftEarly);
    job_stub_->async()->ReportFailure(&call->context, &call->request, &call->response,
                                      answer(id, std::move(done)));
  }

  void describe(CallId id, DoneWith<Description> done) override {
    auto call = open<DescribeRequest, DescribeResponse>(id);
    job_stub_->async()->Describe(
        &call->context, &call->request, &call->response, [=, this](const grpc::Status& status) {
          Description described{call->response.roll(), {call->response.host(), call->response.pid()}, {}};
          if (call->response.has_held_by()) described.task = call->response.held_by();
          close(id, [&] { done(from_grpc(status), std::move(described)); });
        });
  }

  void cancel(CallId id) override {
    std::lock_guard lock(mutex_);
    if (auto found = open_.find(id); found != open_.end()) found->second->context.TryCancel();
  }

 private:
  struct Open {
    grpc::ClientContext context;
    virtual ~Open() = default;
  };
  template <class Request, class Response>
  struct OpenCall : Open {
    Request request;
    Response response;
  };

  /// The call lives until its close(). Callbacks hold it by a plain pointer: a context holds the channel, and
  /// a channel that ends on a thread of gRPC, as the last thing that a callback lets go, waits for that very
  /// thread.
  template <class Request, class Response>
  OpenCall<Request, Response>* open(CallId id) {
    auto call = std::make_unique<OpenCall<Request, Response>>();
    call->context.AddMetadata(kIdentityMetadata, credential_);
    OpenCall<Request, Response>* kept = call.get();
    std::lock_guard lock(mutex_);
    open_[id] = std::move(call);
    return kept;
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

  const std::string credential_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<pb::CoordinationService::Stub> stub_;
  const std::unique_ptr<Job::Stub> job_stub_;
  pb::CoordinationService::Stub::async_interface& async_;
  std::mutex mutex_;
  std::condition_variable all_answered_;
  std::unordered_map<CallId, std::unique_ptr<Open>> open_;
};

}  // namespace

std::unique_ptr<Service> make_remote_service(const HostPort& address, const Identity& identity,
                                             const TlsFiles& tls) {
  return std::make_unique<RemoteService>(address, identity, tls);
}

}  // namespace lockstep::coordination
