// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/client/proved_socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "lockstep/base/keep_alive.h"
#include "lockstep/coordination/identity/greeting.h"

namespace lockstep::coordination {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr milliseconds kForConnecting(5000), kForGreeting(20000);

bool is_readable(int descriptor) {
  pollfd polled{descriptor, POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

Status broken(int error) {
  return Status::bare(Code::kUnavailable,
                      fmt::format("the connection ended during the greeting{}{}", error != 0 ? ": " : "",
                                  error != 0 ? std::strerror(error) : ""));
}

/// The parts of a greeting fit into the buffer of a new socket.
bool send(int socket, const std::string& bytes) {
  return bytes.empty() ||
         ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

}  // namespace

Status unproved(const HostPort& address, const std::string& reason) {
  return Status::of_service(
      Code::kPermissionDenied,
      fmt::format(
          "the program that serves at {} cannot prove to have the job's secret{}: it is another "
          "program's or user's, or JAX's own coordinator, for which LOCKSTEP_JOB_SECRET must not be set",
          address.to_string(), reason.empty() ? "" : " (" + reason + ")"));
}

Status connect_proved(const HostPort& address, const Identity& identity, int wake, FileDescriptor& socket) {
  std::string why;
  socket = FileDescriptor(connect_to(address, kForConnecting, wake, &why));
  if (is_readable(wake)) return Status::bare(Code::kCancelled, "");
  if (!socket) return Status::bare(Code::kUnavailable, why);
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  keep_alive(socket.get());
  GreetingCall greeting(identity, Whereabouts::own());
  const auto end = SteadyClock::now() + kForGreeting;
  char first_byte = 0;
  if (std::string first = greeting.first_bytes(); !send(socket.get(), first)) return broken(errno);
  while (greeting.missing() != 0) {
    char bytes[4096];
    pollfd polled[] = {{socket.get(), POLLIN, 0}, {wake, POLLIN, 0}};
    const auto left = std::chrono::ceil<milliseconds>(end - SteadyClock::now());
    const int ready = ::poll(polled, 2, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (polled[1].revents != 0) return Status::bare(Code::kCancelled, "");
    if (ready <= 0) {
      return Status::bare(
          Code::kUnavailable,
          fmt::format("it accepts connections, but has not answered for {} s", kForGreeting.count() / 1000));
    }
    const ssize_t got = ::recv(socket.get(), bytes, std::min(greeting.missing(), sizeof bytes), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return broken(got < 0 ? errno : 0);
    if (first_byte == 0) first_byte = bytes[0];
    if (!send(socket.get(), greeting.receive({bytes, static_cast<std::size_t>(got)}))) return broken(errno);
  }
  const Status& result = greeting.result();
  if (result.ok() || result.service_error) return result;
  constexpr char kTlsAlert = 0x15, kTlsHandshake = 0x16;
  if (first_byte == kTlsAlert || first_byte == kTlsHandshake)
    return Status::bare(Code::kUnavailable, "it speaks TLS");
  return unproved(address, result.message);
}

}  // namespace lockstep::coordination
