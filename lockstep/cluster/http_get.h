// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <string>

namespace lockstep::cluster {

struct HttpAnswer {
  int status = 0;  ///< 200, 404, ...
  std::string body;
};

/// One GET over plain HTTP, directly to the server (proxies are ignored). `server` is "host" or "host:port".
/// Blocks for at most the timeout plus the time of name resolution. Throws InitializationError if the server
/// cannot be reached in time or its answer is not HTTP.
HttpAnswer http_get(const std::string& server, const std::string& path,
                    const std::map<std::string, std::string>& headers, std::chrono::milliseconds timeout);

}  // namespace lockstep::cluster
