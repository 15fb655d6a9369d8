// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/storage/backoff.h"
#include "lockstep/storage/sigv4.h"

namespace lockstep::storage {

struct HttpRequest {
  std::string method = "GET";
  std::string url;  ///< sent unchanged: it must be encoded already
  Headers headers;
  std::span<const std::byte> body;  ///< for PUT and POST; must live until the answer is there

  /// The memory for the body of an answer with status `into_status`; other bodies are stored in
  /// HttpAnswer::body. It is a failure if the body is larger.
  std::span<std::byte> into;
  int into_status = 206;

  std::size_t largest_body = std::size_t{16} << 20;  ///< of HttpAnswer::body; it is a failure if it is larger
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds stall_timeout{60'000};  ///< it is a failure if no byte arrives for this time, in
                                                    ///< whole seconds
  std::chrono::milliseconds whole_timeout{0};       ///< for the whole request; 0: no limit
  bool proxies = true;                              ///< use the proxies of the environment
  const Cancellation* cancellation = nullptr;       ///< checked about once a second
};

struct HttpAnswer {
  int status = 0;                              ///< 200, 404, ...; 0 if there was no answer
  std::map<std::string, std::string> headers;  ///< by their names in lower case
  std::string body;
  std::size_t received = 0;  ///< bytes in `into`; valid even if `failure` says that the rest is missing

  /// Why there is no complete answer; empty if there is one.
  std::string failure;
  bool may_pass = false;   ///< the failure may be temporary
  bool was_sent = false;   ///< the server may have done the request although it failed
  bool cancelled = false;  ///< it was cancelled by HttpRequest::cancellation

  /// The header's value; "" if it was not sent.
  std::string header(const std::string& name) const;
};

/// Sends HTTP requests and keeps connections for later ones. TLS certificates are verified. Redirects are not
/// followed. Thread-safe; each request uses a connection of its own.
class HttpClient {
 public:
  /// Certificates of authorities for servers: a file, a folder; if both are empty the system's.
  explicit HttpClient(std::string ca_file = "", std::string ca_folder = "");
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Blocks until the answer has arrived or the request has failed.
  HttpAnswer send(const HttpRequest& request);

  /// The number of connections made so far.
  long connections_made() const;

 private:
  struct Transfers;
  std::string ca_file_, ca_folder_;
  std::unique_ptr<Transfers> transfers_;
};

}  // namespace lockstep::storage
