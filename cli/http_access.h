#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

/// Whether a request's `Host` is one of the names, a loopback name, or, where `addresses` may be, an IP
/// address: a page of another site cannot make a browser send any of these. The port does not count.
bool host_allowed(std::string_view host, const std::vector<std::string>& names, bool addresses);

/// What a request says of itself. Header lines that are missing are empty.
struct Credentials {
  std::string_view target;  ///< "/?token=..."
  std::string_view cookie;
  std::string_view authorization;
};

/// Whether the token stands in the request: as `token` of the query, as this cookie, or as "Bearer TOKEN".
/// The time that it takes tells nothing of the token. An empty one is always there.
bool has_token(const Credentials& credentials, std::string_view token, std::string_view cookie_name);

/// "/metrics" of "/metrics?a=b".
std::string_view path_of(std::string_view target);
/// The value of a name in the query; no escapes are undone.
std::optional<std::string_view> query_value(std::string_view target, std::string_view name);

/// Whether it may be a token: at least 16 letters, digits, - or _, which need no escapes anywhere.
bool is_token(std::string_view text);

/// 32 random hexadecimal digits.
std::string make_token();

}  // namespace lockstep::cli
