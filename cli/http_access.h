// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

/// Whether a request's `Host` is one of the names, a loopback name, or, if `addresses`, an IP address: no
/// page of another site can make a browser send these. The port is ignored.
bool host_allowed(std::string_view host, const std::vector<std::string>& names, bool addresses);

/// The identification in a request; missing header lines are empty.
struct Credentials {
  std::string_view target;  ///< "/?token=..."
  std::string_view cookie;
  std::string_view authorization;
};

/// Whether the request contains the token: as `token` in the query, as this cookie, or as "Bearer TOKEN".
/// Compares in constant time. Always true for an empty token.
bool has_token(const Credentials& credentials, std::string_view token, std::string_view cookie_name);

/// "/metrics" from "/metrics?a=b".
std::string_view path_of(std::string_view target);
/// The value of a name in the query, without decoding.
std::optional<std::string_view> query_value(std::string_view target, std::string_view name);

/// Whether it can be a token: at least 16 letters, digits, - or _, which need no escapes.
bool is_token(std::string_view text);

/// 32 random hexadecimal digits.
std::string make_token();

}  // namespace lockstep::cli
