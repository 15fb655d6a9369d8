// SPDX-License-Identifier: Apache-2.0
#include "cli/status/http_access.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <cctype>

#include "lockstep/base/keep_openssl.h"

namespace lockstep::cli {
namespace {

std::string lower(std::string_view text) {
  std::string copy(text);
  std::ranges::transform(copy, copy.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return copy;
}

// Without the port and, of IPv6, the brackets; empty where it is no host.
std::string name_in(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == host.npos) return "";
    const std::string_view rest = host.substr(end + 1);
    return rest.empty() || rest.starts_with(':') ? lower(host.substr(1, end - 1)) : "";
  }
  return lower(host.substr(0, host.find(':')));
}

bool is_address(const std::string& name) {
  keep_openssl_at_exit();
  unsigned char bytes[16];
  return inet_pton(AF_INET, name.c_str(), bytes) == 1 || inet_pton(AF_INET6, name.c_str(), bytes) == 1;
}

bool equal(std::string_view given, std::string_view token) {
  return given.size() == token.size() && CRYPTO_memcmp(given.data(), token.data(), token.size()) == 0;
}

}  // namespace

bool host_allowed(std::string_view host, const std::vector<std::string>& names, bool addresses) {
  const std::string name = name_in(host);
  if (name.empty()) return false;
  if (name == "localhost" || name == "127.0.0.1" || name == "::1") return true;
  if (addresses && is_address(name)) return true;
  return std::ranges::any_of(names, [&](const std::string& each) { return name == lower(each); });
}

bool has_token(std::string_view target, std::string_view authorization, std::string_view token) {
  if (token.empty()) return true;
  if (const auto given = query_value(target, "token"); given && equal(*given, token)) return true;
  return authorization.size() > 7 && lower(authorization.substr(0, 7)) == "bearer " &&
         equal(authorization.substr(7), token);
}

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

std::optional<std::string_view> query_value(std::string_view target, std::string_view name) {
  const std::size_t begin = target.find('?');
  std::string_view rest = begin == target.npos ? "" : target.substr(begin + 1);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (one.starts_with(name) && one.substr(name.size()).starts_with('=')) return one.substr(name.size() + 1);
  }
  return std::nullopt;
}

bool is_token(std::string_view text) {
  return text.size() >= 16 && std::ranges::all_of(text, [](unsigned char c) {
           return (c < 128 && std::isalnum(c) != 0) || c == '-' || c == '_';
         });
}

}  // namespace lockstep::cli
