// SPDX-License-Identifier: Apache-2.0
#include "lockstep/storage/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <ctime>
#include <map>

#include "lockstep/base/fail.h"
#include "lockstep/base/keep_openssl.h"
#include "lockstep/base/text.h"

namespace lockstep::storage {
namespace {

constexpr const char* kAlgorithm = "AWS4-HMAC-SHA256";

std::string hex(const unsigned char* bytes, std::size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::string hmac(std::string_view key, std::string_view text) {
  keep_openssl_at_exit();
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &size) == nullptr) {
    fail("[sign] OpenSSL cannot compute an HMAC with SHA-256");
  }
  return std::string(reinterpret_cast<char*>(digest), size);
}

/// Without surrounding blanks, and with single blanks in place of several.
std::string canonical_value(const std::string& value) {
  std::string text;
  for (char c : value) {
    const bool blank = c == ' ' || c == '\t';
    if (!blank) {
      text += c;
    } else if (!text.empty() && text.back() != ' ') {
      text += ' ';
    }
  }
  if (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

std::string time_text(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

}  // namespace

std::string sha256_hex(std::span<const std::byte> bytes) {
  keep_openssl_at_exit();
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr) != 1)
    fail("[sign] OpenSSL cannot compute SHA-256");
  return hex(digest, size);
}

std::string sha256_hex(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text))); }

Headers signature_headers(const RequestToSign& request, const SigningKeys& keys, const SigningScope& scope) {
  const std::string time = time_text(scope.time), date = time.substr(0, 8);
  Headers added = {{"x-amz-date", time}};
  if (!keys.session_token.empty()) added.emplace_back("x-amz-security-token", keys.session_token);

  std::map<std::string, std::string> headers;
  for (const Headers* some : {&request.headers, static_cast<const Headers*>(&added)}) {
    for (const auto& [name, value] : *some) {
      auto [it, first] = headers.try_emplace(lower_case(name), canonical_value(value));
      if (!first) it->second.append(",").append(canonical_value(value));
    }
  }
  std::string canonical_headers, signed_headers;
  for (const auto& [name, value] : headers) {
    canonical_headers += name + ":" + value + "\n";
    signed_headers += (signed_headers.empty() ? "" : ";") + name;
  }
  const std::string canonical =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, request.path, query_string(request.query),
                  canonical_headers, signed_headers, request.payload_hash);

  const std::string range = fmt::format("{}/{}/{}/aws4_request", date, scope.region, scope.service);
  const std::string to_sign = fmt::format("{}\n{}\n{}\n{}", kAlgorithm, time, range, sha256_hex(canonical));
  std::string key = hmac("AWS4" + keys.secret_access_key, date);
  for (std::string_view part :
       {std::string_view(scope.region), std::string_view(scope.service), std::string_view("aws4_request")}) {
    key = hmac(key, part);
  }
  const std::string code = hmac(key, to_sign);
  added.emplace_back("authorization",
                     fmt::format("{} Credential={}/{}, SignedHeaders={}, Signature={}", kAlgorithm,
                                 keys.access_key_id, range, signed_headers,
                                 hex(reinterpret_cast<const unsigned char*>(code.data()), code.size())));
  return added;
}

}  // namespace lockstep::storage
