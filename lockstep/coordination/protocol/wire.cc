// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/protocol/wire.h"

#include <absl/synchronization/mutex.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>

#include <mutex>
#include <string>
#include <vector>

#include "coordination.pb.h"
#include "lockstep/base/keep_alive.h"
#include "lockstep/base/keep_openssl.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/coordination/tls/certificates.h"

namespace lockstep::coordination {
namespace {

constexpr std::size_t kLongestMessage = 3072;  // as gRPC encodes it: all headers together have 8 KiB
constexpr std::size_t kLongestId = 1024;
const char kServiceError[] = "type.googleapis.com/tensorflow.CoordinationServiceError";
const char kBarrierError[] = "type.googleapis.com/tensorflow.BarrierError";
const char kServiceMismatch[] = "type.googleapis.com/tensorflow.ServiceMismatchError";

Code code_of(grpc::StatusCode code) {
  switch (static_cast<Code>(code)) {
    case Code::kOk:
    case Code::kCancelled:
    case Code::kUnknown:
    case Code::kInvalidArgument:
    case Code::kDeadlineExceeded:
    case Code::kNotFound:
    case Code::kAlreadyExists:
    case Code::kPermissionDenied:
    case Code::kResourceExhausted:
    case Code::kFailedPrecondition:
    case Code::kAborted:
    case Code::kUnimplemented:
    case Code::kInternal:
    case Code::kUnavailable:
      return static_cast<Code>(code);
  }
  return Code::kUnknown;
}

/// The message as text, as much of it as fits into the headers, where gRPC writes what is not ASCII in three
/// times as many bytes.
std::string fitting(const std::string& message) {
  constexpr std::string_view kMark = "...";
  const std::string text = shown_lines(message);
  std::size_t encoded = 0, kept = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool as_it_is = text[i] >= 0x20 && text[i] < 0x7f && text[i] != '%';
    encoded += as_it_is ? 1 : 3;
    if (encoded <= kLongestMessage - kMark.size()) kept = i + 1;
    if (encoded > kLongestMessage) return std::string(first_bytes(text, kept)).append(kMark);
  }
  return text;
}

void log_protobuf(google::protobuf::LogLevel, const char* file, int line, const std::string& message) {
  logging::debug("protobuf: {} ({}:{})", message, file, line);
}

grpc::ChannelArguments channel_arguments() {
  route_grpc_log();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // No coordinator compresses its answers, and gRPC expands whatever comes without a limit.
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPing);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(1000 * kOutOfReach.count()));
  return arguments;
}

void log_line(gpr_log_func_args* args) {
  logging::debug("gRPC: {} ({}:{})", args->message, args->file, args->line);
}

}  // namespace

grpc::Status to_grpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  xla::coordination::GrpcPayloadContainer container;
  auto add = [&](const char* key, const google::protobuf::MessageLite& value) {
    auto* payload = container.add_payloads();
    payload->set_key(key);
    payload->set_value(value.SerializeAsString());
  };
  if (status.service_error) {
    xla::coordination::CoordinationServiceError error;
    if (status.service_error->source_task) error.set_source_task_id(*status.service_error->source_task);
    error.set_lockstep_diverged(status.service_error->diverged);
    add(kServiceError, error);
  }
  if (status.barrier) {
    xla::coordination::BarrierError error;
    error.set_barrier_id(std::string(first_bytes(status.barrier->id, kLongestId)));
    error.set_counter(status.barrier->counter);
    add(kBarrierError, error);
  }
  if (status.right_service_incarnation) {
    xla::coordination::ServiceMismatchError error;
    error.set_service_incarnation(*status.right_service_incarnation);
    add(kServiceMismatch, error);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code), fitting(status.message),
                      container.SerializeAsString());
}

Status from_grpc(const grpc::Status& status) {
  Status result;
  result.code = code_of(status.error_code());
  result.message = status.error_message();
  if (result.ok()) return result;
  xla::coordination::GrpcPayloadContainer container;
  if (!container.ParseFromString(status.error_details())) return result;
  for (const auto& payload : container.payloads()) {
    xla::coordination::CoordinationServiceError error;
    xla::coordination::BarrierError barrier;
    xla::coordination::ServiceMismatchError mismatch;
    if (payload.key() == kServiceError) {
      result.service_error.emplace();
      if (!error.ParseFromString(payload.value())) continue;
      if (error.has_source_task_id()) result.service_error->source_task = error.source_task_id();
      result.service_error->diverged = error.lockstep_diverged();
    } else if (payload.key() == kBarrierError && barrier.ParseFromString(payload.value())) {
      result.barrier = BarrierInstance{barrier.barrier_id(), barrier.counter()};
    } else if (payload.key() == kServiceMismatch && mismatch.ParseFromString(payload.value())) {
      result.right_service_incarnation = mismatch.service_incarnation();
    }
  }
  return result;
}

grpc::ByteBuffer to_buffer(const Payload& payload) {
  grpc::Slice slices[2] = {grpc::Slice(payload.head), {}};
  if (payload.tail == nullptr || payload.tail->empty()) return {slices, 1};
  auto* holder = new Value(payload.tail);
  slices[1] = grpc::Slice(
      const_cast<char*>(payload.tail->data()), payload.tail->size(),
      [](void* held) { delete static_cast<Value*>(held); }, holder);
  return {slices, 2};
}

std::string bytes_of(const grpc::ByteBuffer& buffer) {
  std::string bytes;
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices)
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const TlsFiles& tls) {
  keep_openssl_at_exit();
  if (!tls.given()) return grpc::InsecureChannelCredentials();
  const Certificates pem = read_certificates(tls, CertificateUse::kClient);
  return grpc::SslCredentials(
      {.pem_root_certs = pem.authority, .pem_private_key = pem.key, .pem_cert_chain = pem.certificate});
}

std::shared_ptr<grpc::Channel> open_channel(const HostPort& address, const TlsFiles& tls) {
  grpc::ChannelArguments arguments = channel_arguments();
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstPause);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestPause);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000);
  return grpc::CreateCustomChannel(address.to_string(), channel_credentials(tls), arguments);
}

std::shared_ptr<grpc::Channel> channel_over(int socket) {
  return grpc::CreateCustomInsecureChannelFromFd("coordinator", socket, channel_arguments());
}

std::shared_ptr<grpc::ServerCredentials> server_credentials(const TlsFiles& tls) {
  keep_openssl_at_exit();
  if (!tls.given()) return grpc::InsecureServerCredentials();
  const Certificates pem = read_certificates(tls, CertificateUse::kServer);
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = pem.authority;
  options.pem_key_cert_pairs.push_back({pem.key, pem.certificate});
  return grpc::SslServerCredentials(options);
}

void route_grpc_log() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(log_line);
    google::protobuf::SetLogHandler(log_protobuf);
    // Some builds of gRPC search for cycles among its own locks each time one is taken, which only helps its
    // developers.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  });
}

}  // namespace lockstep::coordination
