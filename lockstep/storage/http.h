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
  std::string url;  ///< sent as it is: what needs encoding is encoded
  Headers headers;
  std::span<const std::byte> body;  ///< sent with PUT and POST; has to live until the answer is there

  /// Where the body of an answer with the status `into_status` goes; the body of others goes into
  /// HttpAnswer::body. More bytes than fit are a failure.
  std::span<std::byte> into;
  int into_status = 206;

  std::size_t largest_body = std::size_t{16} << 20;  ///< of HttpAnswer::body; more is a failure
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds stall_timeout{60'000};  ///< no byte for so long, in whole seconds, is a failure
  std::chrono::milliseconds whole_timeout{0};       ///< for all of it; 0: no bound
  bool proxies = true;                              ///< those that the environment names are used
  const Cancellation* cancellation = nullptr;       ///< looked at about once a second
};

struct HttpAnswer {
  int status = 0;                              ///< 200, 404, ...; 0 where not even that came
  std::map<std::string, std::string> headers;  ///< by their names in small letters
  std::string body;
  std::size_t received = 0;  ///< bytes in `into`; they are right where `failure` says that more did not come

  /// Why there is no whole answer; empty if there is one.
  std::string failure;
  bool may_pass = false;   ///< a failure that may be gone when it is tried again
  bool was_sent = false;   ///< a failure after which the server may have done what it was asked for
  bool cancelled = false;  ///< the failure is that of HttpRequest::cancellation

  /// The header's value; "" where it was not sent.
  std::string header(const std::string& name) const;
};

/// Sends HTTP requests and keeps connections for the next ones. TLS certificates are checked. Redirects are
/// not followed. May be used by several threads at a time; each request has a connection to itself.
class HttpClient {
 public:
  /// Certificates that may sign those of servers: a file, a folder; where both are empty the system's.
  explicit HttpClient(std::string ca_file = "", std::string ca_folder = "");
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Blocks until the answer is there or has failed.
  HttpAnswer send(const HttpRequest& request);

  /// How many connections have been made so far.
  long connections_made() const;

 private:
  struct Transfers;
  std::string ca_file_, ca_folder_;
  std::unique_ptr<Transfers> transfers_;
};

}  // namespace lockstep::storage
