// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/proxy/relay_client.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "job.pb.h"
#include "lockstep/coordination/client/connection.h"
#include "lockstep/coordination/identity/credential.h"
#include "lockstep/coordination/protocol/calls.h"
#include "lockstep/coordination/protocol/wire.h"
#include "lockstep/coordination/server/relay_server.h"

namespace lockstep::coordination {
namespace {

class GrpcRelayClient : public RelayClient, grpc::ClientBidiReactor<RelayCalls, RelayAnswers> {
 public:
  GrpcRelayClient(const HostPort& address, const Identity& identity, const TlsFiles& tls)
      : secret_(identity.secret), connection_(address, identity, tls) {
    context_.set_wait_for_ready(true);
    context_.AddMetadata(kIdentityMetadata,
                         make_credential(identity, Whereabouts::own(), {kRelayStream, ""}));
    connection_.use(0, true, [this](const auto& channel, const Status& why) {
      if (channel == nullptr) return end(to_grpc(why));
      grpc::TemplatedGenericStub<RelayCalls, RelayAnswers>(channel).PrepareBidiStreamingCall(
          &context_, kRelayPath, {}, this);
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

  void call(const Procedure& procedure, CallId id, const Caller& caller, std::string request,
            Answered done) override {
    RelayCall call;
    call.set_procedure(std::string(procedure.name()));
    call.set_host(caller.where.host);
    call.set_pid(caller.where.pid);
    call.set_attempt(caller.attempt);
    if (procedure.shared) {
      const Question question{&procedure, request};
      {
        std::lock_guard lock(mutex_);
        auto& waiting = shared_[question];
        waiting.emplace_back(id, std::move(done));
        if (waiting.size() > 1) return;
      }
      id = next_call_id();
      done = [this, question](const Status& status, const Payload& response) {
        std::vector<Waiting> waiting;
        {
          std::lock_guard lock(mutex_);
          if (auto found = shared_.extract(question)) waiting = std::move(found.mapped());
        }
        for (auto& [each, answer] : waiting) answer(status, response);
      };
    }
    call.set_id(id);
    call.set_request(std::move(request));
    send(std::move(call), std::move(done));
  }

  void cancel(CallId id) override {
    Answered cancelled;
    {
      std::lock_guard lock(mutex_);
      if (!open_.contains(id)) {
        // One of several with the same question; the others continue.
        for (auto& [question, waiting] : shared_) {
          const auto found = std::ranges::find(waiting, id, &Waiting::first);
          if (found == waiting.end()) continue;
          cancelled = std::exchange(found->second, [](const Status&, const Payload&) {});
          found->first = 0;
          break;
        }
      }
    }
    if (cancelled) return cancelled(Status::bare(Code::kCancelled, "the caller has gone"), {});
    std::lock_guard lock(mutex_);
    if (over_ || !open_.contains(id)) return;
    RelayCall& call = *batch_.add_calls();
    call.set_id(id);
    call.set_cancel(true);
    write_next();
  }

 private:
  using Waiting = std::pair<CallId, Answered>;
  using Question = std::pair<const Procedure*, std::string>;

  void send(RelayCall call, Answered done) {
    Status ended;
    {
      std::lock_guard lock(mutex_);
      if (!ending_) {
        open_[call.id()] = std::move(done);
        *batch_.add_calls() = std::move(call);
        return write_next();
      }
      ended = ended_;
    }
    done(ended, {});
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
    std::vector<std::pair<Answered, RelayAnswer*>> answered;
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
    for (auto& [done, answer] : answered) {
      const Status status = answer->code() == 0 ? Status()
                                                : from_grpc({static_cast<grpc::StatusCode>(answer->code()),
                                                             answer->error(), answer->details()});
      done(status, {.tail = std::make_shared<const std::string>(std::move(*answer->mutable_response()))});
    }
    in_.Clear();
    StartRead(&in_);
  }

  void OnDone(const grpc::Status& status) override { end(status); }

  void end(const grpc::Status& status) {
    std::unordered_map<CallId, Answered> open;
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
      if (!status.ok()) ended_ = from_grpc(status);
      ended_.barrier.reset();
      open = std::exchange(open_, {});
    }
    for (auto& [id, done] : open) done(ended_, {});
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
  std::unordered_map<CallId, Answered> open_;
  std::map<Question, std::vector<Waiting>> shared_;
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
