#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cli/job_server.h"

namespace lockstep::cli {

/// What stands at a path.
struct Page {
  std::shared_ptr<const std::string> text;  ///< Null: nothing does.
  std::string type;                         ///< "text/html; charset=utf-8"
  std::string policy;                       ///< What the page may load: a Content-Security-Policy.
};

/// Answers GET and HEAD over HTTP/1.1, on the context's thread. A request must name an allowed host and carry
/// the token (http_access.h): 403 otherwise; 405 for other methods, 404 where there is no page. Who opens "/"
/// with the token in the address gets it as a cookie, and goes on without it in the address. At most kMost
/// connections: a further one takes the place of the one that has done nothing for longest. A connection that
/// sends no whole request, or does not take what was sent, for kSilence is closed.
class HttpListener {
 public:
  static constexpr int kMost = 16;
  static constexpr int kSilence = 10;  ///< Seconds; for an answer three times as long.

  /// Throws Error where the address or port cannot be had. `page_at` is called on the context's thread.
  HttpListener(boost::asio::io_context& context, StatusPageOptions options,
               std::function<Page(std::string_view path)> page_at);
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  /// With the token.
  const std::string& url() const;

  /// Closes everything; on the context's thread, or when it has ended.
  void close();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::cli
