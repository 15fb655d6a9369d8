// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cli/status/job_server.h"

namespace lockstep::cli {

/// The content at a path.
struct Page {
  std::shared_ptr<const std::string> text;  ///< null: there is none
  std::string type;                         ///< "text/html; charset=utf-8"
  std::string policy;                       ///< a Content-Security-Policy for the page
};

/// Answers GET and HEAD over HTTP/1.1, on the context's thread. A request must contain an allowed host and,
/// except for "/", the token (http_access.h): 403 otherwise; 405 for other methods, 404 if there is no page.
/// At most kMost connections: a further one replaces the one that has been idle longest. A connection that
/// does not send a whole request, or does not take the answer, for kSilence is closed.
class HttpListener {
 public:
  static constexpr int kMost = 16;
  static constexpr int kSilence = 10;  ///< in seconds; three times as long for an answer

  /// Throws Error if the address or port is not available. `page_at` is called on the context's thread.
  HttpListener(boost::asio::io_context& context, StatusPageOptions options,
               std::function<Page(std::string_view path)> page_at);
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  /// Includes the token.
  const std::string& url() const;

  /// Closes everything. Call it on the context's thread, or after that has ended.
  void close();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::cli
