// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/identity/proof.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "lockstep/base/fail.h"
#include "lockstep/base/keep_openssl.h"
#include "lockstep/coordination/identity/identity.h"

namespace lockstep::coordination {
namespace {

constexpr unsigned int kCodeBytes = 32;

std::string hmac(std::string_view secret, std::string_view text) {
  keep_openssl_at_exit();
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &size) == nullptr ||
      size != kCodeBytes) {
    const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    fail(
        "[prove] OpenSSL cannot compute an HMAC with SHA-256 ({}), so no process can prove that it belongs "
        "to the job; look at OpenSSL's configuration (OPENSSL_CONF) and the providers that it activates",
        reason != nullptr ? reason : "it gives no reason");
  }
  return std::string(reinterpret_cast<char*>(digest), size);
}

}  // namespace

std::string authentication_code(std::string_view secret, std::string_view purpose, std::string_view bytes) {
  // A key for each purpose: a code for one is none for another.
  return hmac(hmac(secret, purpose), bytes);
}

bool same_code(std::string_view a, std::string_view b) {
  return !a.empty() && a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string random_nonce() {
  const std::uint64_t numbers[] = {random_incarnation(), random_incarnation()};
  return std::string(reinterpret_cast<const char*>(numbers), sizeof(numbers));
}

}  // namespace lockstep::coordination
