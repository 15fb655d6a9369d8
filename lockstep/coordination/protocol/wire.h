// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/identity/identity.h"
#include "lockstep/coordination/identity/status.h"
#include "lockstep/coordination/protocol/service.h"

namespace lockstep::coordination {

/// Converts the status for the network: the message is UTF-8, and truncated to fit into HTTP/2 headers; the
/// payloads are in the details.
grpc::Status to_grpc(const Status& status);

/// The inverse. Codes that the protocol does not use become UNKNOWN; unreadable details are ignored.
Status from_grpc(const grpc::Status& status);

/// Credentials for mutual TLS with the files; plain text if there are none. Throws as read_certificates does.
std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const TlsFiles& tls);

/// Milliseconds without traffic after which a channel pings the other side.
inline constexpr int kPing = 60'000;

/// Milliseconds between two attempts to connect: after the first one, and at most.
inline constexpr int kFirstPause = 50, kLongestPause = 500;

/// A channel to a coordinator. It pings the coordinator after kPing, and gives up if that does not answer for
/// kOutOfReach, as keep_alive() does for sockets.
std::shared_ptr<grpc::Channel> open_channel(const HostPort& address, const TlsFiles& tls);

/// The same over a connected socket, which it takes; it ends when the connection does.
std::shared_ptr<grpc::Channel> channel_over(int socket);

std::shared_ptr<grpc::ServerCredentials> server_credentials(const TlsFiles& tls);

/// The bytes of a message for gRPC; it shares the payload's tail.
grpc::ByteBuffer to_buffer(const Payload& payload);

/// The bytes that gRPC has received; empty if it cannot read them.
std::string bytes_of(const grpc::ByteBuffer& buffer);

/// Call it before gRPC is used: log lines of gRPC and protobuf, which any client of the port can cause, go to
/// our log with the level debug.
void route_grpc_log();

}  // namespace lockstep::coordination
