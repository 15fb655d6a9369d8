// SPDX-License-Identifier: Apache-2.0
#include "cli/status/status_page.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "lockstep/base/fail.h"
#include "lockstep/base/keep_openssl.h"

namespace lockstep::cli {
namespace {

// As the policy names the text between the two.
std::string hash_between(std::string_view begin, std::string_view end) {
  const std::size_t from = kStatusPageHtml.find(begin) + begin.size();
  const std::string_view text = kStatusPageHtml.substr(from, kStatusPageHtml.find(end) - from);
  keep_openssl_at_exit();
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  if (EVP_Digest(text.data(), text.size(), digest, &length, EVP_sha256(), nullptr) != 1)
    fail("OpenSSL cannot compute the SHA-256 of the status page's script or style");
  std::string base64(4 * ((length + 2) / 3) + 1, '\0');
  const int written =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(base64.data()), digest, static_cast<int>(length));
  return fmt::format("'sha256-{}'", base64.substr(0, static_cast<std::size_t>(written)));
}

}  // namespace

std::shared_ptr<const std::string> status_page() {
  static const auto page = std::make_shared<const std::string>(kStatusPageHtml);
  return page;
}

std::string status_page_policy() {
  static const std::string policy = fmt::format(
      "default-src 'none'; connect-src 'self'; img-src data:; script-src {}; style-src {}; base-uri 'none'; "
      "form-action 'none'; frame-ancestors 'none'",
      hash_between("<script>", "</script>"), hash_between("<style>", "</style>"));
  return policy;
}

}  // namespace lockstep::cli
