// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/tls/tls_probe.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "lockstep/base/file_descriptor.h"
#include "lockstep/base/keep_openssl.h"
#include "lockstep/coordination/tls/openssl.h"
#include "lockstep/coordination/tls/tls.h"

namespace lockstep::coordination {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr char kVariables[] = "LOCKSTEP_TLS_CERTIFICATE, LOCKSTEP_TLS_KEY and LOCKSTEP_TLS_AUTHORITY";

/// A connection for a moment.
class Probe {
 public:
  Probe(const HostPort& address, std::chrono::milliseconds timeout)
      : end_(SteadyClock::now() + timeout), fd_(connect_to(address, timeout)) {}

  void say(const std::string& bytes) {
    if (fd_ && !bytes.empty()) over_ |= ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0;
  }

  /// The next bytes; empty at the end.
  std::string hear() {
    char bytes[4096];
    while (fd_ && !over_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - SteadyClock::now());
      pollfd readable{fd_.get(), POLLIN, 0};
      if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) <= 0) break;
      const ssize_t got = ::recv(fd_.get(), bytes, sizeof bytes, 0);
      if (got <= 0) break;
      return std::string(bytes, static_cast<std::size_t>(got));
    }
    return "";
  }

 private:
  const SteadyClock::time_point end_;
  const FileDescriptor fd_;
  bool over_ = false;
};

/// How TLS begins, of a client that shows nothing.
std::string client_hello() {
  keep_openssl_at_exit();
  const openssl::Context context(SSL_CTX_new(TLS_client_method()));
  const openssl::Session session(SSL_new(context.get()));
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(session.get(), BIO_new(BIO_s_mem()), out);
  SSL_connect(session.get());
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out, &bytes);
  return std::string(bytes, static_cast<std::size_t>(size));
}

std::string try_with(const HostPort& address, const TlsFiles& files, std::chrono::milliseconds timeout) {
  const auto tls = Tls::load(files);
  const auto session = tls->connect();
  Probe probe(address, timeout);
  probe.say(session->to_send());
  bool heard = false;
  // If the server does not accept this process's certificate, it says so after the handshake is done on this
  // side.
  for (std::string some; !session->is_over() && !(some = probe.hear()).empty();) {
    const bool was_open = session->is_open(), first = !std::exchange(heard, true);
    if (first && some.front() != 0x15 && some.front() != 0x16) {
      return fmt::format(
          "it does not speak TLS, but this process has certificates: give the coordinator certificates by {} "
          "too, or unset them here",
          kVariables);
    }
    session->receive(some);
    probe.say(session->to_send());
    if (!was_open && session->is_open() && !session->names(address.host)) {
      return fmt::format(
          "its certificate does not name '{}' in its subjectAltName: make one that does, or give the "
          "coordinator's address as the certificate names it",
          address.host);
    }
  }
  if (session->trouble().empty()) return "";
  return fmt::format("the TLS handshake with it failed: {}", session->trouble());
}

}  // namespace

std::string why_no_common_tls(const HostPort& address, const TlsFiles& files,
                              std::chrono::milliseconds timeout) {
  if (files.given()) return try_with(address, files, timeout);
  Probe probe(address, timeout);
  probe.say(client_hello());
  const std::string answer = probe.hear();
  // A record of TLS with its handshake or an alert.
  if (answer.size() < 2 || (answer[0] != 0x15 && answer[0] != 0x16) || answer[1] != 3) return "";
  return fmt::format("it speaks TLS, but this process has no certificate: set {} here too", kVariables);
}

}  // namespace lockstep::coordination
