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

/// Whether a request with this target and this Authorization line ("" if it is missing) contains the token:
/// as `token` in the query, or as "Bearer TOKEN". No cookie does, because a browser sends cookies to every
/// port of a host, which may be other users'. Compares in constant time. Always true for an empty token.
bool has_token(std::string_view target, std::string_view authorization, std::string_view token);

/// "/metrics" from "/metrics?a=b".
std::string_view path_of(std::string_view target);
/// The value of a name in the query, without decoding.
std::optional<std::string_view> query_value(std::string_view target, std::string_view name);

/// Whether it can be a token: at least 16 letters, digits, - or _, which need no escapes.
bool is_token(std::string_view text);

}  // namespace lockstep::cli
