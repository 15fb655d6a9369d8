// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/front.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "coordination.grpc.pb.h"
#include "job.grpc.pb.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/limits.h"
#include "lockstep/coordination/credential.h"
#include "lockstep/coordination/expand.h"
#include "lockstep/coordination/listener.h"
#include "lockstep/coordination/relay_server.h"
#include "lockstep/coordination/wire.h"

namespace lockstep::coordination {
namespace {

constexpr int kThreads = 12;  // of gRPC

namespace pb = xla::coordination;
using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;
using Bytes = grpc::ByteBuffer;

/// The checks that a call must pass to be served.
struct Door {
  std::optional<Status> refusal(const Context& context, const std::function<SignedRequest()>& request,
                                Gate::Caller& caller) const {
    const auto& metadata = context.client_metadata();
    std::optional<std::string_view> credential;
    if (auto found = metadata.find(kIdentityMetadata); found != metadata.end()) {
      credential = std::string_view(found->second.data(), found->second.size());
    }
    auto status = gate.refusal(credential, request, caller);
    if (!status) listener.let_in([&] { return context.peer(); });
    return status;
  }

  /// The bytes that the call's request may have. A stranger's first call is small: it registers.
  std::size_t largest_of(const Context& context) const {
    const bool stranger = listener.is_stranger([&] { return context.peer(); });
    return stranger ? limits.strangers_bytes : static_cast<std::size_t>(limits.largest_message);
  }

  const Gate& gate;
  Listener& listener;
  const Limits limits;
};

/// One call being served. It is answered exactly once: by the state machine, or by the gate if that rejects
/// the caller. If the caller goes away before, the state machine is told, and answers at once.
class Call : public Reactor {
 public:
  Call(const Door& door, const Context& context, Service& service,
       const std::function<SignedRequest()>& request)
      : service_(service), id_(next_call_id()) {
    if (auto status = door.refusal(context, request, caller_)) {
      refused_ = true;
      finish(*status);
    }
  }
  CallId id() const { return id_; }
  bool refused() const { return refused_; }
  const Gate::Caller& caller() const { return caller_; }  ///< As it says.
  void finish(const Status& status) { Finish(to_grpc(status)); }

 private:
  void OnCancel() override { service_.cancel(id_); }
  void OnDone() override { delete this; }

  Service& service_;
  const CallId id_;
  Gate::Caller caller_;
  bool refused_ = false;
};

std::string bytes_of(const grpc::ByteBuffer& buffer) {
  std::string bytes;
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices)
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

template <class Request>
Call* begin(const Door& door, const Context& context, Service& service, const Request& request) {
  return new Call(door, context, service, [&] { return sign(request); });
}

Done finishing(Call* call) {
  return [call](const Status& status) { call->finish(status); };
}

/// The bytes of a GetKeyValueResponse, of which all answers with one value share the value's: thousands of
/// processes may read one of megabytes at the same time.
grpc::ByteBuffer value_response(const std::string& key, const Value& value) {
  std::string before;
  {
    google::protobuf::io::StringOutputStream out(&before);
    google::protobuf::io::CodedOutputStream coded(&out);
    using Coded = google::protobuf::io::CodedOutputStream;
    auto field = [](int number) { return static_cast<std::uint32_t>(number << 3 | 2); };
    auto size = [](std::size_t bytes) { return static_cast<std::uint32_t>(bytes); };
    const std::size_t inner = 1 + Coded::VarintSize32(size(key.size())) + key.size() + 1 +
                              Coded::VarintSize32(size(value->size())) + value->size();
    coded.WriteVarint32(field(pb::GetKeyValueResponse::kKvFieldNumber));
    coded.WriteVarint32(size(inner));
    coded.WriteVarint32(field(pb::KeyValueEntry::kKeyFieldNumber));
    coded.WriteVarint32(size(key.size()));
    coded.WriteString(key);
    coded.WriteVarint32(field(pb::KeyValueEntry::kValueFieldNumber));
    coded.WriteVarint32(size(value->size()));
  }
  auto* holder = new Value(value);
  grpc::Slice slices[] = {grpc::Slice(before),
                          grpc::Slice(
                              const_cast<char*>(value->data()), value->size(),
                              [](void* held) { delete static_cast<Value*>(held); }, holder)};
  return grpc::ByteBuffer(slices, value->empty() ? 1 : 2);
}

template <class Base>
using Raw = pb::CoordinationService::WithRawCallbackMethod_RegisterTask<
    pb::CoordinationService::WithRawCallbackMethod_Heartbeat<
        pb::CoordinationService::WithRawCallbackMethod_PollForError<
            pb::CoordinationService::WithRawCallbackMethod_ShutdownTask<
                pb::CoordinationService::WithRawCallbackMethod_WatchTasks<
                    pb::CoordinationService::WithRawCallbackMethod_InsertKeyValue<Base>>>>>>;
template <class Base>
using RawToo = pb::CoordinationService::WithRawCallbackMethod_GetKeyValue<
    pb::CoordinationService::WithRawCallbackMethod_TryGetKeyValue<
        pb::CoordinationService::WithRawCallbackMethod_IncrementKeyValue<
            pb::CoordinationService::WithRawCallbackMethod_GetKeyValueDir<
                pb::CoordinationService::WithRawCallbackMethod_DeleteKeyValue<
                    pb::CoordinationService::WithRawCallbackMethod_Barrier<
                        pb::CoordinationService::WithRawCallbackMethod_CancelBarrier<
                            pb::CoordinationService::WithRawCallbackMethod_GetAliveTasks<Base>>>>>>>>;

/// The protocol's calls, unpacked for the state machine. gRPC passes their bytes as they came: it would
/// expand what is compressed without a limit, and before anybody has asked whose it is.
class GrpcService final : public Raw<RawToo<pb::CoordinationService::Service>> {
 public:
  GrpcService(coordination::Service& service, const Door& door) : service_(service), door_(door) {}

  Reactor* RegisterTask(Context* context, const Bytes* request, Bytes* response) override {
    return serve<pb::RegisterTaskRequest>(context, request, response, [&](Call* call, const auto& asked) {
      const Registrant who{asked.source_task_id(), asked.incarnation(), call->caller().where,
                           call->caller().attempt};
      service_.register_task(call->id(), who, [=](const Status& status, std::uint64_t service) {
        pb::RegisterTaskResponse answer;
        answer.set_service_incarnation(service);
        finish(call, status, answer, response);
      });
    });
  }

  Reactor* Heartbeat(Context* context, const Bytes* request, Bytes* response) override {
    return serve<pb::HeartbeatRequest>(context, request, response, [&](Call* call, const auto& asked) {
      const std::uint64_t service = service_of(asked);
      service_.heartbeat(call->id(), service, asked.source_task_id(), asked.incarnation(),
                         [=](const Status& status) {
                           pb::HeartbeatResponse answer;
                           answer.set_service_incarnation(service);
                           finish(call, status, answer, response);
                         });
    });
  }

  Reactor* PollForError(Context* context, const Bytes* request, Bytes* response) override {
    return serve<pb::PollForErrorRequest>(context, request, response, [&](Call* call, const auto& asked) {
      service_.poll_for_error(call->id(), service_of(asked), asked.source_task_id(), finishing(call));
    });
  }

  Reactor* ShutdownTask(Context* context, const Bytes* request, Bytes* response) override {
    return serve<pb::ShutdownTaskRequest>(context, request, response, [&](Call* call, const auto& asked) {
      service_.shutdown_task(call->id(), service_of(asked), asked.source_task_id(), finishing(call));
    });
  }

  Reactor* WatchTasks(Context* context, const Bytes* request, Bytes* response) override {
    return serve<pb::WatchTasksRequest>(context, request, response, [&](Call* call, const auto& asked) {
      service_.watch_tasks(call->id(), service_of(asked), asked.version_number(),
                           [=](const Status& status, const WatchedTasks& watched) {
                             pb::WatchTasksResponse answer;
                             answer.set_version_number(watched.version);
                             for (const TaskInfo& task : watched.tasks) fill(task, *answer.add_task_state());
                             finish(call, status, answer, response);
                           });
    });
  }

  Reactor* InsertKeyValue(Context* context, const Bytes* request, Bytes* response) override {
    return serve<pb::InsertKeyValueRequest>(context, request, response, [&](Call* call, const auto& asked) {
      service_.insert(call->id(), service_of(asked), asked.kv().key(), asked.kv().value(),
                      asked.allow_overwrite(), finishing(call));
    });
  }

  Reactor* GetKeyValue(Context* context, const Bytes* request, Bytes* response) override {
    return serve<pb::GetKeyValueRequest>(context, request, response, [&](Call* call, const auto& asked) {
      service_.get(call->id(), service_of(asked), asked.key(), answer_shared(call, asked.key(), response));
    });
  }

  Reactor* TryGetKeyValue(Context* context, const Bytes* request, Bytes* response) override {
    return serve<pb::TryGetKeyValueRequest>(context, request, response, [&](Call* call, const auto& asked) {
      service_.try_get(call->id(), service_of(asked), asked.key(),
                       answer_shared(call, asked.key(), response));
    });
  }

  Reactor* IncrementKeyValue(Context* context, const Bytes* request, Bytes* response) override {
    return serve<pb::IncrementKeyValueRequest>(
        context, request, response, [&](Call* call, const auto& asked) {
          service_.increment(call->id(), service_of(asked), asked.key(), asked.increment(),
                             [=, key = asked.key()](const Status& status, const std::string& value) {
                               pb::IncrementKeyValueResponse answer;
                               answer.mutable_kv()->set_key(key);
                               answer.mutable_kv()->set_value(value);
                               finish(call, status, answer, response);
                             });
        });
  }

  Reactor* GetKeyValueDir(Context* context, const Bytes* request, Bytes* response) override {
    return serve<pb::GetKeyValueDirRequest>(context, request, response, [&](Call* call, const auto& asked) {
      service_.get_directory(call->id(), service_of(asked), asked.directory_key(),
                             [=](const Status& status, const KeyValues& found) {
                               pb::GetKeyValueDirResponse answer;
                               for (const auto& [key, value] : found) {
                                 pb::KeyValueEntry* entry = answer.add_kv();
                                 entry->set_key(key);
                                 entry->set_value(value);
                               }
                               finish(call, status, answer, response);
                             });
    });
  }

  Reactor* DeleteKeyValue(Context* context, const Bytes* request, Bytes* response) override {
    return serve<pb::DeleteKeyValueRequest>(context, request, response, [&](Call* call, const auto& asked) {
      service_.erase(call->id(), service_of(asked), asked.key(), finishing(call));
    });
  }

  Reactor* Barrier(Context* context, const Bytes* request, Bytes* response) override {
    return serve<pb::BarrierRequest>(context, request, response, [&](Call* call, const auto& asked) {
      BarrierCall barrier{asked.barrier_id(),
                          asked.counter(),
                          asked.barrier_timeout_in_ms(),
                          {asked.task_ids().begin(), asked.task_ids().end()},
                          asked.source_task_id()};
      service_.barrier(call->id(), service_of(asked), barrier,
                       [=](const Status& status, std::int64_t counter) {
                         pb::BarrierResponse answer;
                         answer.set_counter(counter);
                         finish(call, status, answer, response);
                       });
    });
  }

  Reactor* CancelBarrier(Context* context, const Bytes* request, Bytes* response) override {
    return serve<pb::CancelBarrierRequest>(context, request, response, [&](Call* call, const auto& asked) {
      service_.cancel_barrier(call->id(), service_of(asked), asked.barrier_id(), asked.counter(),
                              finishing(call));
    });
  }

  Reactor* GetAliveTasks(Context* context, const Bytes* request, Bytes* response) override {
    return serve<pb::GetAliveTasksRequest>(context, request, response, [&](Call* call, const auto& asked) {
      service_.get_alive_tasks(call->id(), service_of(asked), asked.requesting_task_id(),
                               {asked.task_ids().begin(), asked.task_ids().end()},
                               [=](const Status& status, const std::vector<AliveTask>& alive) {
                                 pb::GetAliveTasksResponse answer;
                                 for (const AliveTask& task : alive) {
                                   answer.add_alive_task_ids(task.task);
                                   answer.add_incarnations(task.incarnation);
                                 }
                                 finish(call, status, answer, response);
                               });
    });
  }

 private:
  template <class Request, class Serve>
  Reactor* serve(Context* context, const Bytes* request, Bytes* response, Serve serve) {
    static const grpc::Slice nothing;
    *response = Bytes(&nothing, 1);
    const std::size_t largest = door_.largest_of(*context);
    std::string bytes = bytes_of(*request);
    auto* call = new Call(door_, *context, service_, [&] {
      return SignedRequest{Request::default_instance().GetTypeName(), bytes};
    });
    if (call->refused()) return call;
    const std::optional<std::string> plain = expanded(std::move(bytes), largest);
    Request asked;
    if (!plain) {
      call->finish(Status::bare(Code::kResourceExhausted,
                                fmt::format("the request is damaged, or has more than {} bytes", largest)));
    } else if (!asked.ParseFromString(*plain)) {
      call->finish(Status::bare(Code::kInternal, "the request cannot be read"));
    } else {
      serve(call, asked);
    }
    return call;
  }

  template <class Response>
  static void finish(Call* call, const Status& status, const Response& answer, Bytes* response) {
    if (status.ok()) {
      Bytes bytes;
      bool own_buffer = false;
      grpc::SerializationTraits<Response>::Serialize(answer, &bytes, &own_buffer);
      response->Swap(&bytes);
    }
    call->finish(status);
  }

  template <class Request>
  static std::uint64_t service_of(const Request& request) {
    return request.incarnations().service_incarnation();
  }

  static DoneWith<Value> answer_shared(Call* call, std::string key, Bytes* response) {
    return [=, key = std::move(key)](const Status& status, const Value& value) {
      if (status.ok()) *response = value_response(key, value);
      call->finish(status);
    };
  }

  static void fill(const TaskInfo& task, pb::TaskInfo& out) {
    out.set_task_id(task.task);
    out.set_state(static_cast<pb::TaskState>(task.state));
    out.set_incarnation(task.incarnation);
    if (task.state != TaskState::kError) return;
    out.set_error_code(task.error_code);
    out.set_error_message(task.error);
    out.mutable_error_payload()->set_source_task_id(task.task);
  }

  coordination::Service& service_;
  const Door& door_;
};

/// Lockstep's own calls.
class JobService final
    : public Job::WithCallbackMethod_ReportFailure<Job::WithCallbackMethod_Prove<
          Job::WithCallbackMethod_Describe<Job::WithRawCallbackMethod_Relay<Job::Service>>>> {
 public:
  JobService(coordination::Service& service, const Door& door)
      : service_(service), door_(door), relays_(service, door.gate.identity().secret) {}

  void end_relays() { relays_.end(); }

  Reactor* ReportFailure(Context* context, const ReportFailureRequest* request,
                         ReportFailureResponse*) override {
    auto* call = begin(door_, *context, service_, *request);
    if (call->refused()) return call;
    const FailureReportMessage& message = request->report();
    FailureReport report{static_cast<FailureKind>(message.kind()), {}, message.how()};
    for (const auto& subject : message.subjects())
      report.subjects.push_back({subject.task_id(), subject.incarnation()});
    service_.report_failure(call->id(), request->service_incarnation(), report, finishing(call));
    return call;
  }

  Reactor* Prove(Context* context, const ProveRequest* request, ProveResponse* response) override {
    auto* call = begin(door_, *context, service_, *request);
    if (call->refused()) return call;
    const std::string& secret = door_.gate.identity().secret;
    if (secret.empty()) {
      call->finish(Status::of_service(Code::kPermissionDenied,
                                      "the process has a secret of its job, but the coordinator has none; "
                                      "give both the same LOCKSTEP_JOB_SECRET"));
      return call;
    }
    response->set_proof(coordinators_proof(secret, request->nonce()));
    call->finish({});
    return call;
  }

  Reactor* Describe(Context* context, const DescribeRequest* request, DescribeResponse* response) override {
    auto* call = begin(door_, *context, service_, *request);
    if (call->refused()) return call;
    service_.describe(call->id(), request->with_roll(),
                      [=](const Status& status, const Description& described) {
                        response->set_roll(described.roll);
                        response->set_service_incarnation(described.service_incarnation);
                        response->set_host(described.where.host);
                        response->set_pid(described.where.pid);
                        if (described.task) response->set_held_by(*described.task);
                        call->finish(status);
                      });
    return call;
  }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Relay(Context* context) override {
    Gate::Caller caller;
    const auto refusal = door_.refusal(
        *context,
        [] {
          return SignedRequest{kRelayStream, ""};
        },
        caller);
    return relays_.serve(refusal);
  }

 private:
  coordination::Service& service_;
  const Door& door_;
  Relays relays_;
};

}  // namespace

class Front::Impl {
 public:
  Impl(Service& service, const Gate& gate, const FrontOptions& options)
      : address_(options.address),
        gate_(gate),
        listener_(address_, options.limits, options.tls.given() ? nullptr : &gate),
        door_{gate_, listener_, options.limits},
        service_(service, door_),
        job_service_(service, door_) {
    route_grpc_log();
    require_threads(kThreads, "the coordinator");  // gRPC's server hangs at its end if it lacks one
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(options.limits.largest_message);
    builder.SetMaxSendMessageSize(-1);
    builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPing / 2);
    builder.AddChannelArgument(
        GRPC_ARG_MAX_CONCURRENT_STREAMS,
        options.limits.calls + options.limits.calls_per_process * options.num_processes);
    const auto silence = static_cast<int>(options.limits.silence.count());
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, silence);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, silence);
    builder.SetResourceQuota(grpc::ResourceQuota("coordinator").Resize(options.limits.largest_sum));
    using FromDescriptor = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
    taking_over_ = builder.experimental().AddExternalConnectionAcceptor(FromDescriptor::FROM_FD,
                                                                        server_credentials(options.tls));
    builder.RegisterService(&service_);
    builder.RegisterService(&job_service_);
    server_ = builder.BuildAndStart();
    if (!server_) fail<InitializationError>("the coordinator at {} cannot serve", address_.to_string());
    address_.port = listener_.port();
    listener_.start([this](int socket) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.fd = socket;
      taking_over_->HandleNewConnection(&connection);
    });
  }

  ~Impl() { stop(); }

  void stop() {
    std::lock_guard lock(mutex_);
    if (!server_) return;
    listener_.stop();
    job_service_.end_relays();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
    server_->Wait();
    server_.reset();
  }

  int port() const { return address_.port; }

 private:
  HostPort address_;
  const Gate& gate_;
  Listener listener_;
  const Door door_;
  GrpcService service_;
  JobService job_service_;
  std::mutex mutex_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> taking_over_;
  std::unique_ptr<grpc::Server> server_;
};

Front::Front(Service& service, const Gate& gate, const FrontOptions& options)
    : impl_(std::make_unique<Impl>(service, gate, options)) {}
Front::~Front() = default;
int Front::port() const { return impl_->port(); }
void Front::stop() { impl_->stop(); }

}  // namespace lockstep::coordination
