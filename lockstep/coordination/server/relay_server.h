// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/coordination/identity/status.h"
#include "lockstep/coordination/protocol/service.h"

namespace grpc {
class ByteBuffer;
template <class Request, class Response>
class ServerBidiReactor;
}  // namespace grpc

namespace lockstep::coordination {

/// The path of a relay's stream in gRPC.
inline constexpr char kRelayPath[] = "/lockstep.coordination.Job/Relay";

/// Used instead of a request's type in the credential with which a relay's stream begins.
inline constexpr char kRelayStream[] = "lockstep.coordination.RelayCalls";

/// The streams of calls (job.proto) that a coordinator serves: each call is passed to the service, and its
/// answer is sent back. Each message of a stream must prove the secret, if there is one. When a stream ends,
/// its open calls are cancelled. Thread-safe.
class Relays {
 public:
  /// `service` must outlive the streams.
  Relays(Service& service, std::string secret);
  ~Relays();
  Relays(const Relays&) = delete;
  Relays& operator=(const Relays&) = delete;

  /// A new stream; with a refusal it only reports that. The reactor deletes itself.
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* serve(const std::optional<Status>& refusal);

  /// Ends all streams, each after its calls are answered.
  void end();

  class Open;

 private:
  Service& service_;
  const std::string secret_;
  const std::shared_ptr<Open> open_;
};

/// The proof for a message of a relay's stream.
std::string relay_proof(const std::string& secret, const std::string& challenge, std::uint64_t number,
                        const std::string& batch);

}  // namespace lockstep::coordination
