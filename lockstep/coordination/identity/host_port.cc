// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/identity/host_port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/file_descriptor.h"
#include "lockstep/base/text.h"

namespace lockstep::coordination {
namespace {

using Resolved = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

FileDescriptor socket_for(const addrinfo& info) {
  return FileDescriptor(::socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// Sets `why` if the name has no address.
Resolved resolve(const HostPort& address, int flags, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) why = gai_strerror(error);
  return Resolved(error == 0 ? found : nullptr, &freeaddrinfo);
}

/// 0 if a server listens, otherwise the errno of connect.
int try_connect(const FileDescriptor& socket, const addrinfo& info, std::chrono::milliseconds timeout,
                int wake = -1) {
  if (!socket) return errno;
  if (::connect(socket.get(), info.ai_addr, info.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd poll_for[] = {{socket.get(), POLLOUT, 0}, {wake, POLLIN, 0}};
  int ready = ::poll(poll_for, 2, static_cast<int>(timeout.count()));
  if (ready < 0) return errno;
  if (ready > 0 && poll_for[0].revents == 0) return ECANCELED;
  if (ready == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

}  // namespace

std::string HostPort::to_string() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

HostPort parse_address(const std::string& text) {
  HostPort address;
  std::size_t colon = text.rfind(':');
  bool good = colon != std::string::npos && colon > 0;
  if (good && text.front() == '[') {
    good = text[colon - 1] == ']' && colon > 2;
    if (good) address.host = text.substr(1, colon - 2);
  } else if (good) {
    address.host = text.substr(0, colon);
    good = address.host.find_first_of(":/ ") == std::string::npos;
  }
  if (good) {
    const char* end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data() + colon + 1, end, address.port);
    good = error == std::errc() && stop == end && address.port >= 0 && address.port <= 65535;
  }
  if (!good) {
    fail<InitializationError>(
        "'{}' is not the address of a coordinator: expected host:port, such as node1:8476 or [fd00::1]:8476",
        shown(text));
  }
  return address;
}

std::string why_unreachable(const HostPort& address, std::chrono::milliseconds timeout) {
  std::string why;
  Resolved resolved = resolve(address, 0, why);
  if (!resolved) {
    return fmt::format(
        "the host name '{}' is not resolved ({}); check the name in the coordinator's address, and this "
        "host's DNS",
        shown(address.host), why);
  }
  int last_error = 0;
  bool refused = false;
  for (const addrinfo* info = resolved.get(); info != nullptr; info = info->ai_next) {
    FileDescriptor socket = socket_for(*info);
    last_error = try_connect(socket, *info, timeout);
    if (last_error == 0) return "";
    refused = refused || last_error == ECONNREFUSED;
  }
  if (refused) {
    return fmt::format(
        "the connection is refused: nobody listens at {}; check that the coordinator runs, and the port",
        address.to_string());
  }
  return fmt::format(
      "there is no answer from {} ({}); check that the host is up, and that no firewall drops the connection",
      address.to_string(), std::strerror(last_error));
}

int connect_to(const HostPort& address, std::chrono::milliseconds timeout, int wake, std::string* why) {
  std::string unresolved;
  const Resolved resolved = resolve(address, 0, unresolved);
  int error = 0;
  for (const addrinfo* info = resolved.get(); info != nullptr && error != ECANCELED; info = info->ai_next) {
    FileDescriptor socket = socket_for(*info);
    error = try_connect(socket, *info, timeout, wake);
    if (error == 0) return socket.release();
  }
  if (why != nullptr) {
    *why = resolved ? std::strerror(error)
                    : fmt::format("the host name '{}' is not resolved: {}", shown(address.host), unresolved);
  }
  return -1;
}

std::string why_not_bindable(const HostPort& address) {
  std::string why;
  Resolved resolved = resolve(address, AI_PASSIVE, why);
  if (!resolved) return fmt::format("the host name '{}' is not resolved ({})", shown(address.host), why);
  const FileDescriptor socket = socket_for(*resolved);
  int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (::bind(socket.get(), resolved->ai_addr, resolved->ai_addrlen) == 0 && ::listen(socket.get(), 1) == 0)
    return "";
  switch (errno) {
    case EADDRINUSE:
      return "the port is in use; choose another one, or port 0 to let the system pick one";
    case EADDRNOTAVAIL:
      return fmt::format("'{}' is not an address of this host", shown(address.host));
    default:
      return std::strerror(errno);
  }
}

bool is_of_this_host(const HostPort& address) {
  std::string why;
  Resolved resolved = resolve({address.host, 0}, 0, why);
  for (const addrinfo* info = resolved.get(); info != nullptr; info = info->ai_next) {
    FileDescriptor socket = socket_for(*info);
    if (socket && ::bind(socket.get(), info->ai_addr, info->ai_addrlen) == 0) return true;
  }
  return false;
}

bool is_loopback(const HostPort& address) {
  std::string why;
  Resolved resolved = resolve(address, 0, why);
  for (const addrinfo* info = resolved.get(); info != nullptr; info = info->ai_next) {
    const void* raw = info->ai_addr;
    if (info->ai_family == AF_INET) {
      const auto* ip = static_cast<const sockaddr_in*>(raw);
      if (ntohl(ip->sin_addr.s_addr) >> 24 != 127) return false;
    } else if (info->ai_family == AF_INET6) {
      const auto* ip = static_cast<const sockaddr_in6*>(raw);
      if (!IN6_IS_ADDR_LOOPBACK(&ip->sin6_addr)) return false;
    }
  }
  return resolved != nullptr;
}

}  // namespace lockstep::coordination
