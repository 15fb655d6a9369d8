// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/server/grpc_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "job.pb.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/limits.h"
#include "lockstep/coordination/identity/credential.h"
#include "lockstep/coordination/protocol/calls.h"
#include "lockstep/coordination/protocol/wire.h"
#include "lockstep/coordination/server/expand.h"
#include "lockstep/coordination/server/listener.h"
#include "lockstep/coordination/server/relay_server.h"

namespace lockstep::coordination {
namespace {

constexpr int kThreads = 12;  // of gRPC

using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;
using Bytes = grpc::ByteBuffer;

/// The checks that a call must pass to be served.
struct Door {
  std::optional<Status> refusal(const Context& context, const std::function<SignedRequest()>& request,
                                Caller& caller) const {
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
  const Caller& caller() const { return caller_; }  ///< as it says
  void finish(const Status& status) { Finish(to_grpc(status)); }

 private:
  void OnCancel() override { service_.cancel(id_); }
  void OnDone() override { delete this; }

  Service& service_;
  const CallId id_;
  Caller caller_;
  bool refused_ = false;
};

/// Registers the procedures with gRPC by their paths, as its generated code does, but for bytes as they came:
/// gRPC would expand what is compressed without a limit, and before anybody has asked whose it is.
class Procedures final : public grpc::Service {
 public:
  Procedures(coordination::Service& service, const Door& door)
      : service_(service), door_(door), relays_(service, door.gate.identity().secret) {
    for_each_procedure([this](const Procedure& procedure) {
      add(procedure, [this, &procedure](Call* call, std::string request, Bytes* response) {
        service_.call(procedure, call->id(), call->caller(), std::move(request),
                      [=](const Status& status, const Payload& payload) {
                        if (status.ok()) *response = to_buffer(payload);
                        call->finish(status);
                      });
      });
    });
    add(kProve, [this](Call* call, const std::string& request, Bytes* response) {
      call->finish(prove(request, *response));
    });
    using grpc::internal::RpcMethod;
    AddMethod(new grpc::internal::RpcServiceMethod(kRelayPath, RpcMethod::BIDI_STREAMING, nullptr));
    MarkMethodRawCallback(count_, new grpc::internal::CallbackBidiHandler<Bytes, Bytes>(
                                      [this](Context* context) { return relay(*context); }));
  }

  void end_relays() { relays_.end(); }

 private:
  using Serve = std::function<void(Call* call, std::string request, Bytes* response)>;

  void add(const Procedure& procedure, const Serve& serve) {
    using grpc::internal::RpcMethod;
    AddMethod(new grpc::internal::RpcServiceMethod(procedure.path, RpcMethod::NORMAL_RPC, nullptr));
    MarkMethodRawCallback(count_++,
                          new grpc::internal::CallbackUnaryHandler<Bytes, Bytes>(
                              [=, this, &procedure](Context* context, const Bytes* request, Bytes* response) {
                                return begin(procedure, *context, *request, response, serve);
                              }));
  }

  Reactor* begin(const Procedure& procedure, const Context& context, const Bytes& request, Bytes* response,
                 const Serve& serve) {
    *response = to_buffer({});
    const std::size_t largest = door_.largest_of(context);
    std::string bytes = bytes_of(request);
    auto* call = new Call(door_, context, service_, [&] {
      return SignedRequest{procedure.request_type, bytes};
    });
    if (call->refused()) return call;
    std::optional<std::string> plain = expanded(std::move(bytes), largest);
    if (plain) {
      serve(call, std::move(*plain), response);
    } else {
      call->finish(Status::bare(Code::kResourceExhausted,
                                fmt::format("the request is damaged, or has more than {} bytes", largest)));
    }
    return call;
  }

  Status prove(const std::string& bytes, Bytes& response) const {
    ProveRequest request;
    if (!request.ParseFromString(bytes)) return unreadable("request");
    const std::string& secret = door_.gate.identity().secret;
    if (secret.empty()) {
      return Status::of_service(
          Code::kPermissionDenied,
          "the process has a secret of its job, but the coordinator has none; give both "
          "the same LOCKSTEP_JOB_SECRET");
    }
    ProveResponse answer;
    answer.set_proof(coordinators_proof(secret, request.nonce()));
    response = to_buffer({answer.SerializeAsString()});
    return {};
  }

  grpc::ServerBidiReactor<Bytes, Bytes>* relay(const Context& context) {
    Caller caller;
    const auto refusal = door_.refusal(
        context,
        [] {
          return SignedRequest{kRelayStream, ""};
        },
        caller);
    return relays_.serve(refusal);
  }

  coordination::Service& service_;
  const Door& door_;
  Relays relays_;
  int count_ = 0;  ///< of methods
};

}  // namespace

class GrpcServer::Impl {
 public:
  Impl(Service& service, const Gate& gate, const GrpcServerOptions& options)
      : address_(options.address),
        gate_(gate),
        listener_(address_, options.limits, options.tls.given() ? nullptr : &gate),
        door_{gate_, listener_, options.limits},
        procedures_(service, door_) {
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
    builder.RegisterService(&procedures_);
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
    procedures_.end_relays();
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
  Procedures procedures_;
  std::mutex mutex_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> taking_over_;
  std::unique_ptr<grpc::Server> server_;
};

GrpcServer::GrpcServer(Service& service, const Gate& gate, const GrpcServerOptions& options)
    : impl_(std::make_unique<Impl>(service, gate, options)) {}
GrpcServer::~GrpcServer() = default;
int GrpcServer::port() const { return impl_->port(); }
void GrpcServer::stop() { impl_->stop(); }

}  // namespace lockstep::coordination
