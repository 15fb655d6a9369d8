// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/client/remote_service.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "job.pb.h"
#include "lockstep/coordination/client/connection.h"
#include "lockstep/coordination/client/proved_socket.h"
#include "lockstep/coordination/identity/credential.h"
#include "lockstep/coordination/identity/proof.h"
#include "lockstep/coordination/protocol/calls.h"
#include "lockstep/coordination/protocol/wire.h"

namespace lockstep::coordination {
namespace {

class GrpcRemoteService : public RemoteService {
 public:
  GrpcRemoteService(const HostPort& address, const Identity& identity, const TlsFiles& tls)
      : address_(address), identity_(identity), connection_(address, identity, tls) {}

  ~GrpcRemoteService() override {
    connection_.close();
    std::unique_lock lock(mutex_);
    for (auto& [id, open] : open_) open->cancel();
    all_answered_.wait(lock, [this] { return open_.empty(); });
  }

  bool is_connected() const override { return connection_.is_connected(); }

  void prove(CallId id, Done done) override {
    if (identity_.secret.empty()) return done({});
    Open* const open = keep(id, {});
    if (connection_.greets()) {
      return connection_.use(id, false,
                             [=, this](const auto&, const Status& status) { close(id, done, status); });
    }
    ask_for_proof(id, false, *open, [=, this](const Status& status) { close(id, done, status); });
  }

  void call(const Procedure& procedure, CallId id, const Caller&, std::string request,
            Answered done) override {
    Open* const open = keep(id, std::move(request));
    auto answered = [=, this, done = std::move(done)](const Status& status) {
      close(id, done, status, Payload{bytes_of(open->call.response)});
    };
    auto begin = [=, this, &procedure] {
      start(id, procedure.joins, procedure, open->request, open->call, answered);
    };
    if (!procedure.joins || identity_.secret.empty() || connection_.greets()) return begin();
    ask_for_proof(id, true, *open, [=](const Status& status) { status.ok() ? begin() : answered(status); });
  }

  void cancel(CallId id) override {
    if (connection_.cancel(id)) return;
    std::lock_guard lock(mutex_);
    if (auto found = open_.find(id); found != open_.end()) found->second->cancel();
  }

 private:
  /// A call of gRPC.
  struct GrpcCall {
    grpc::ClientContext context;
    grpc::ByteBuffer request, response;
  };

  /// A call of the service, before which the other side may have to prove the secret.
  struct Open {
    std::string request;
    GrpcCall call, proof;
    void cancel() {
      proof.context.TryCancel();
      call.context.TryCancel();
    }
  };

  /// The call lives until its close(). Callbacks hold it by a plain pointer: a context holds the channel, and
  /// if a callback on a thread of gRPC released the last reference, the destruction of the channel would wait
  /// for that same thread.
  Open* keep(CallId id, std::string request) {
    auto open = std::make_unique<Open>();
    open->request = std::move(request);
    std::lock_guard lock(mutex_);
    return (open_[id] = std::move(open)).get();
  }

  template <class Answer, class... Value>
  void close(CallId id, const Answer& answer, const Status& status, const Value&... value) {
    answer(status, value...);
    std::lock_guard lock(mutex_);
    open_.erase(id);
    all_answered_.notify_all();
  }

  /// Signs the request and sends it once there is a connection, for which it waits with `waits`; otherwise
  /// the call ends with the reason.
  void start(CallId id, bool waits, const Procedure& procedure, const std::string& request, GrpcCall& call,
             Done answered) {
    const SignedRequest whole =
        identity_.secret.empty() ? SignedRequest() : SignedRequest{procedure.request_type, request};
    call.context.AddMetadata(kIdentityMetadata, make_credential(identity_, where_, whole));
    call.context.set_wait_for_ready(waits);
    call.request = to_buffer({request});
    connection_.use(id, waits, [=, &call, &procedure](const auto& channel, const Status& why) {
      if (channel == nullptr) return answered(why);
      grpc::GenericStub(channel).UnaryCall(
          &call.context, procedure.path, {}, &call.request, &call.response,
          [answered](const grpc::Status& status) {
            Status result = from_grpc(status);
            if (result.code == Code::kUnimplemented && result.message.empty()) result = unknown_call();
            answered(result);
          });
    });
  }

  /// OK if the other side has the secret.
  void ask_for_proof(CallId id, bool waits, Open& open, const Done& done) {
    ProveRequest request;
    request.set_nonce(random_nonce());
    start(id, waits, kProve, request.SerializeAsString(), open.proof,
          [=, this, &open, nonce = request.nonce()](const Status& status) {
            const bool another = status.code == Code::kUnimplemented;
            if (!status.ok() && !another) return done(status);
            ProveResponse response;
            const bool proved = response.ParseFromString(bytes_of(open.proof.response)) &&
                                same_code(response.proof(), coordinators_proof(identity_.secret, nonce));
            done(!another && proved ? Status() : unproved(address_));
          });
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
