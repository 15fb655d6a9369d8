// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/server/relay_server.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "job.pb.h"
#include "lockstep/coordination/identity/proof.h"
#include "lockstep/coordination/protocol/calls.h"
#include "lockstep/coordination/protocol/wire.h"

namespace lockstep::coordination {
namespace {

using Buffer = grpc::ByteBuffer;
constexpr std::size_t kShared = 4096;  ///< Responses from this size on are not copied.

/// The bytes of a RelayAnswers of one answer with this response, which is its last field.
Payload answer_with(const RelayAnswer& answer, const Payload& response) {
  const std::string entry = answer.SerializeAsString() +
                            field_head(RelayAnswer::kResponseFieldNumber, response.size()) + response.head;
  const std::size_t size = entry.size() + response.size() - response.head.size();
  return {field_head(RelayAnswers::kAnswersFieldNumber, size) + entry, response.tail};
}

class Relay;
class Answering;

}  // namespace

class Relays::Open {
 public:
  void add(std::shared_ptr<Answering> answering) {
    std::lock_guard lock(mutex_);
    all_.insert(std::move(answering));
  }
  void remove(const std::shared_ptr<Answering>& answering) {
    std::lock_guard lock(mutex_);
    all_.erase(answering);
  }
  std::set<std::shared_ptr<Answering>> all() {
    std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  std::mutex mutex_;
  std::set<std::shared_ptr<Answering>> all_;
};

namespace {

/// The part of a stream that its calls use; outlives the stream if a call is answered later.
class Answering {
 public:
  explicit Answering(Relay* relay) : relay_(relay) {}

  /// Answers the relay's call of this number.
  void give(std::uint64_t theirs, const Status& status, const Payload& response);
  void written();
  void challenge(const std::string& challenge);
  /// Ends it with the status, after the current write.
  void finish(const grpc::Status& status);
  /// The same once all calls are answered.
  void end(const grpc::Status& status);
  void gone();

  CallId open(std::uint64_t theirs) {
    const CallId ours = next_call_id();
    std::lock_guard lock(mutex_);
    open_[theirs] = ours;
    return ours;
  }
  std::optional<CallId> find(std::uint64_t theirs) {
    std::lock_guard lock(mutex_);
    const auto it = open_.find(theirs);
    return it == open_.end() ? std::nullopt : std::optional(it->second);
  }
  std::vector<CallId> all_open() {
    std::lock_guard lock(mutex_);
    std::vector<CallId> all;
    for (const auto& [theirs, ours] : open_) all.push_back(ours);
    return all;
  }

 private:
  void write_next();

  std::mutex mutex_;
  Relay* relay_;
  std::unordered_map<std::uint64_t, CallId> open_;
  RelayAnswers small_;
  std::deque<Buffer> large_;
  bool writing_ = false;
  std::optional<grpc::Status> finish_, end_;
  bool finished_ = false;
};

class Relay : public grpc::ServerBidiReactor<Buffer, Buffer> {
 public:
  Relay(std::shared_ptr<Relays::Open> all, Service& service, std::string secret,
        const std::optional<Status>& refusal)
      : all_(std::move(all)), service_(service), secret_(std::move(secret)), challenge_(random_nonce()) {
    all_->add(answering_);
    if (refusal) {
      answering_->finish(to_grpc(*refusal));
    } else {
      answering_->challenge(challenge_);
      StartRead(&in_);
    }
  }

  void write(Buffer buffer) {
    out_ = std::move(buffer);
    StartWrite(&out_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return answering_->finish(grpc::Status::OK);
    RelayCalls calls;
    RelayBatch batch;
    if (!calls.ParseFromString(bytes_of(in_)) || !batch.ParseFromString(calls.batch())) {
      return answering_->finish({grpc::StatusCode::INTERNAL, unreadable("request").message});
    }
    if (!secret_.empty() &&
        !same_code(calls.proof(), relay_proof(secret_, challenge_, messages_, calls.batch()))) {
      return answering_->finish(
          {grpc::StatusCode::PERMISSION_DENIED, "the relay's message does not prove the job's secret"});
    }
    ++messages_;
    for (RelayCall& call : *batch.mutable_calls()) serve(call);
    in_.Clear();
    StartRead(&in_);
  }

  void OnWriteDone(bool) override { answering_->written(); }

  void OnDone() override {
    answering_->gone();
    all_->remove(answering_);
    for (const CallId call : answering_->all_open()) service_.cancel(call);
    delete this;
  }

  void serve(RelayCall& call) {
    if (call.cancel()) {
      if (const auto ours = answering_->find(call.id())) service_.cancel(*ours);
      return;
    }
    const CallId id = answering_->open(call.id());
    auto done = [answering = answering_, theirs = call.id()](const Status& status, const Payload& response) {
      answering->give(theirs, status, response);
    };
    const Procedure* const procedure = find_procedure(call.procedure());
    if (procedure == nullptr) return done(unknown_call(), {});
    service_.call(*procedure, id, {{call.host(), call.pid()}, call.attempt()},
                  std::move(*call.mutable_request()), std::move(done));
  }

  const std::shared_ptr<Relays::Open> all_;
  Service& service_;
  const std::string secret_, challenge_;
  const std::shared_ptr<Answering> answering_ = std::make_shared<Answering>(this);
  std::uint64_t messages_ = 0;
  Buffer in_, out_;
};

void Answering::give(std::uint64_t theirs, const Status& status, const Payload& response) {
  RelayAnswer answer;
  answer.set_id(theirs);
  if (!status.ok()) {
    const grpc::Status wire = to_grpc(status);
    answer.set_code(wire.error_code());
    answer.set_error(wire.error_message());
    answer.set_details(wire.error_details());
  }
  std::lock_guard lock(mutex_);
  open_.erase(theirs);
  if (relay_ == nullptr || finish_) return;
  if (status.ok() && response.size() >= kShared) {
    large_.push_back(to_buffer(answer_with(answer, response)));
  } else {
    if (status.ok()) answer.set_response(response.head + (response.tail ? *response.tail : ""));
    *small_.add_answers() = std::move(answer);
  }
  write_next();
}

void Answering::challenge(const std::string& challenge) {
  std::lock_guard lock(mutex_);
  small_.set_challenge(challenge);
  write_next();
}

/// The mutex must be held. Answers that become ready during a write are sent together.
void Answering::write_next() {
  if (relay_ == nullptr || writing_ || finished_) return;
  if (finish_) {
    finished_ = true;
    return relay_->Finish(*finish_);
  }
  if (small_.answers_size() != 0 || !small_.challenge().empty()) {
    writing_ = true;
    relay_->write(to_buffer({std::exchange(small_, {}).SerializeAsString()}));
  } else if (!large_.empty()) {
    writing_ = true;
    Buffer next = std::move(large_.front());
    large_.pop_front();
    relay_->write(std::move(next));
  } else if (end_ && open_.empty()) {
    finished_ = true;
    relay_->Finish(*end_);
  }
}

void Answering::written() {
  std::lock_guard lock(mutex_);
  writing_ = false;
  write_next();
}

void Answering::finish(const grpc::Status& status) {
  std::lock_guard lock(mutex_);
  if (!finish_) finish_ = status;
  write_next();
}

void Answering::end(const grpc::Status& status) {
  std::lock_guard lock(mutex_);
  if (!end_) end_ = status;
  write_next();
}

void Answering::gone() {
  std::lock_guard lock(mutex_);
  relay_ = nullptr;
}

}  // namespace

Relays::Relays(Service& service, std::string secret)
    : service_(service), secret_(std::move(secret)), open_(std::make_shared<Open>()) {}

Relays::~Relays() = default;

grpc::ServerBidiReactor<Buffer, Buffer>* Relays::serve(const std::optional<Status>& refusal) {
  return new Relay(open_, service_, secret_, refusal);
}

void Relays::end() {
  for (const auto& answering : open_->all())
    answering->end({grpc::StatusCode::UNAVAILABLE, "the coordinator has stopped"});
}

std::string relay_proof(const std::string& secret, const std::string& challenge, std::uint64_t number,
                        const std::string& batch) {
  return authentication_code(secret, "lockstep relay 1", fmt::format("{} {} ", challenge, number) + batch);
}

}  // namespace lockstep::coordination
