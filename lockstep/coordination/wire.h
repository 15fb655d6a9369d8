#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/support/status.h>

#include <memory>

#include "lockstep/coordination/credential.h"
#include "lockstep/coordination/identity.h"
#include "lockstep/coordination/status.h"

namespace lockstep::coordination {

/// The status as it goes over the wire: the message cut to what HTTP/2 headers hold, the payloads in the
/// details.
grpc::Status to_grpc(const Status& status);

/// The reverse. Codes that the protocol does not use become UNKNOWN; details that cannot be read are ignored.
Status from_grpc(const grpc::Status& status);

/// For mutual TLS with the files, plain text where none are given. Throws as read_certificates.
std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const TlsFiles& tls);
std::shared_ptr<grpc::ServerCredentials> server_credentials(const TlsFiles& tls);

/// A request as its sender signs it and its receiver checks it.
template <class Request>
SignedRequest sign(const Request& request) {
  return {Request::descriptor()->full_name(), request.SerializeAsString()};
}

/// To be called before gRPC is used: its and protobuf's own log lines, which anybody who reaches the port can
/// cause, go to our log, at the level debug.
void route_grpc_log();

}  // namespace lockstep::coordination
