// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/storage/uri.h"

namespace lockstep::storage {

struct TestRequest {
  std::string method, target;  ///< as sent: "/bucket/key?a=1"
  std::string path;            ///< from the target, decoded
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> headers;  ///< by their names in lower case
  std::string body;

  bool has(const std::string& name) const { return query.count(name) > 0; }
  std::string header(const std::string& name) const {
    auto it = headers.find(name);
    return it == headers.end() ? "" : it->second;
  }
};

/// The answer of a test's server, and its fault.
struct TestReply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  bool drop = false;                            ///< close the connection instead of answering
  std::size_t stops_after = std::string::npos;  ///< close the connection after this number of bytes of the
                                                ///< answer
  std::chrono::milliseconds delay{0};           ///< before the answer
};

/// An HTTP server on 127.0.0.1 that answers by calling a function, from several threads.
class TestHttpServer {
 public:
  using Handler = std::function<TestReply(const TestRequest&)>;

  /// `tls`: use TLS with this context.
  explicit TestHttpServer(Handler handler, SSL_CTX* tls = nullptr) : handler_(std::move(handler)), tls_(tls) {
    listening_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(listening_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listening_, 128) != 0 ||
        getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      fail("no socket for a test's server");
    }
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { accept_all(); });
  }

  ~TestHttpServer() {
    ending_ = true;
    shutdown(listening_, SHUT_RDWR);
    accepting_.join();
    close(listening_);
    {
      std::lock_guard lock(mutex_);
      for (int descriptor : open_) shutdown(descriptor, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
  }

  int port() const { return port_; }
  std::string url() const {
    return fmt::format("{}://127.0.0.1:{}", tls_ == nullptr ? "http" : "https", port_);
  }
  int connections() const { return connections_; }

 private:
  /// The bytes of a connection, with or without TLS.
  struct Channel {
    int descriptor;
    SSL* tls = nullptr;
    std::string read_ahead;

    long some(char* into, int most) {
      return tls != nullptr ? SSL_read(tls, into, most)
                            : recv(descriptor, into, static_cast<std::size_t>(most), 0);
    }
    bool fill() {
      char buffer[65536];
      const long count = some(buffer, sizeof buffer);
      if (count <= 0) return false;
      read_ahead.append(buffer, static_cast<std::size_t>(count));
      return true;
    }
    bool send_all(std::string_view bytes) {
      while (!bytes.empty()) {
        const long count = tls != nullptr ? SSL_write(tls, bytes.data(), static_cast<int>(bytes.size()))
                                          : send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (count <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(count));
      }
      return true;
    }
  };

  void accept_all() {
    while (!ending_) {
      const int descriptor = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
      if (descriptor < 0) continue;
      const int one = 1;
      setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      ++connections_;
      std::lock_guard lock(mutex_);
      open_.insert(descriptor);
      threads_.emplace_back([this, descriptor] { serve(descriptor); });
    }
  }

  void serve(int descriptor) {
    sigset_t pipe;  // TLS writes to closed connections
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    Channel channel{descriptor};
    if (tls_ != nullptr) {
      channel.tls = SSL_new(tls_);
      SSL_set_fd(channel.tls, descriptor);
    }
    if (channel.tls == nullptr || SSL_accept(channel.tls) == 1) {
      while (!ending_ && exchange(channel)) {
      }
    }
    if (channel.tls != nullptr) SSL_free(channel.tls);
    std::lock_guard lock(mutex_);
    open_.erase(descriptor);
    close(descriptor);
  }

  bool exchange(Channel& channel) {
    std::size_t end;
    while ((end = channel.read_ahead.find("\r\n\r\n")) == std::string::npos) {
      if (!channel.fill()) return false;
    }
    TestRequest request = parse(channel.read_ahead.substr(0, end + 2));
    channel.read_ahead.erase(0, end + 4);
    const std::string length = request.header("content-length");
    const std::size_t bytes = length.empty() ? 0 : std::stoull(length);
    if (request.header("expect") == "100-continue" && !channel.send_all("HTTP/1.1 100 Continue\r\n\r\n"))
      return false;
    while (channel.read_ahead.size() < bytes) {
      if (!channel.fill()) return false;
    }
    request.body = channel.read_ahead.substr(0, bytes);
    channel.read_ahead.erase(0, bytes);

    const TestReply reply = handler_(request);
    for (auto left = reply.delay; left.count() > 0 && !ending_; left -= std::chrono::milliseconds(10))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (reply.drop) return false;
    bool has_length = false;
    std::string text = fmt::format("HTTP/1.1 {} {}\r\n", reply.status, reply.status < 300 ? "OK" : "No");
    for (const auto& [name, value] : reply.headers) {
      text += name + ": " + value + "\r\n";
      has_length |= name == "content-length";
    }
    if (!has_length) text += fmt::format("content-length: {}\r\n", reply.body.size());
    text += "\r\n";
    if (request.method != "HEAD") text += reply.body;
    return channel.send_all(std::string_view(text).substr(0, reply.stops_after)) &&
           reply.stops_after >= text.size();
  }

  static TestRequest parse(const std::string& head) {
    TestRequest request;
    const auto line_end = head.find("\r\n");
    const auto first = head.find(' '), second = head.find(' ', first + 1);
    request.method = head.substr(0, first);
    request.target = head.substr(first + 1, second - first - 1);
    const auto question = request.target.find('?');
    request.path = uri_decode(request.target.substr(0, question));
    for (std::size_t at = question; at < request.target.size();) {
      const auto end = std::min(request.target.find('&', at + 1), request.target.size());
      const std::string item = request.target.substr(at + 1, end - at - 1);
      const auto equals = std::min(item.find('='), item.size());
      request.query[uri_decode(item.substr(0, equals))] =
          equals < item.size() ? uri_decode(item.substr(equals + 1)) : "";
      at = end;
    }
    for (std::size_t at = line_end + 2; at < head.size();) {
      const auto end = head.find("\r\n", at);
      const std::string line = head.substr(at, end - at);
      const auto colon = line.find(':');
      std::string name = line.substr(0, colon);
      for (char& c : name) c = static_cast<char>(std::tolower(c));
      const auto value = line.find_first_not_of(' ', colon + 1);
      request.headers[name] = value == std::string::npos ? "" : line.substr(value);
      at = end + 2;
    }
    return request;
  }

  const Handler handler_;
  SSL_CTX* const tls_;
  int listening_ = -1, port_ = 0;
  std::atomic<bool> ending_ = false;
  std::atomic<int> connections_ = 0;
  std::mutex mutex_;
  std::set<int> open_;
  std::vector<std::thread> threads_;
  std::thread accepting_;
};

}  // namespace lockstep::storage
