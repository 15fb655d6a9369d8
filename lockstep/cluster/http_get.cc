// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/http_get.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "lockstep/base/fail.h"

namespace lockstep::cluster {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLargestAnswer = 1 << 20;

/// A connection that ends with its scope.
struct Socket {
  int descriptor = -1;
  ~Socket() {
    if (descriptor >= 0) close(descriptor);
  }
};

/// Waits until the socket is ready for the events; false at the deadline.
bool wait_for(int descriptor, short events, Clock::time_point deadline) {
  while (true) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd waiting{descriptor, events, 0};
    int ready = poll(&waiting, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

/// Connects to the first of the addresses that accepts; returns the reason if none does.
std::string connect_to(const addrinfo* addresses, Clock::time_point deadline, Socket& connection) {
  std::string reason = "it has no address";
  for (const addrinfo* address = addresses; address != nullptr; address = address->ai_next) {
    Socket attempt{socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    if (attempt.descriptor < 0) {
      reason = std::strerror(errno);
      continue;
    }
    int error = 0;
    if (connect(attempt.descriptor, address->ai_addr, address->ai_addrlen) != 0) {
      error = errno;
      if (error == EINPROGRESS) {
        if (!wait_for(attempt.descriptor, POLLOUT, deadline)) return "it does not answer";
        socklen_t size = sizeof error;
        getsockopt(attempt.descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
      }
    }
    if (error == 0) {
      std::swap(connection.descriptor, attempt.descriptor);
      return "";
    }
    reason = std::strerror(error);
  }
  return reason;
}

}  // namespace

HttpAnswer http_get(const std::string& server, const std::string& path,
                    const std::map<std::string, std::string>& headers, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  auto refuse = [&](const std::string& reason) {
    fail<InitializationError>("cannot ask http://{}/{}: {}", server, path, reason);
  };
  const auto colon = server.find(':');
  const std::string host = server.substr(0, colon);
  const std::string port = colon == std::string::npos ? "80" : server.substr(colon + 1);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0)
    refuse(gai_strerror(error));
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  Socket connection;
  if (std::string reason = connect_to(addresses.get(), deadline, connection); !reason.empty()) refuse(reason);

  // HTTP/1.0: the answer is not chunked, and ends with the connection.
  std::string request = fmt::format("GET /{} HTTP/1.0\r\nHost: {}\r\n", path, server);
  for (const auto& [name, value] : headers) request += name + ": " + value + "\r\n";
  request += "\r\n";
  for (std::string_view rest = request; !rest.empty();) {
    if (!wait_for(connection.descriptor, POLLOUT, deadline)) refuse("it does not accept the request");
    ssize_t sent = send(connection.descriptor, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      refuse(std::strerror(errno));
    }
  }
  std::string answer;
  char buffer[4096];
  while (true) {
    if (!wait_for(connection.descriptor, POLLIN, deadline)) refuse("its answer does not end");
    ssize_t received = recv(connection.descriptor, buffer, sizeof buffer, 0);
    if (received == 0) break;
    if (received > 0) {
      answer.append(buffer, static_cast<std::size_t>(received));
      if (answer.size() > kLargestAnswer) refuse("its answer is larger than 1 MiB");
    } else if (errno != EAGAIN && errno != EINTR) {
      refuse(std::strerror(errno));
    }
  }
  HttpAnswer result;
  const auto space = answer.find(' '), head_end = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/") || head_end == std::string::npos || space > head_end ||
      std::from_chars(answer.data() + space + 1, answer.data() + head_end, result.status).ec != std::errc()) {
    refuse("its answer is not HTTP");
  }
  result.body = answer.substr(head_end + 4);
  return result;
}

}  // namespace lockstep::cluster
