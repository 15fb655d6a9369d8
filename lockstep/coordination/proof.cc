// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "lockstep/base/keep_openssl.h"
#include "lockstep/coordination/host.h"

namespace lockstep::coordination {
namespace {

std::string hmac(std::string_view secret, std::string_view text) {
  keep_openssl_at_exit();
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &size);
  return std::string(reinterpret_cast<char*>(digest), size);
}

}  // namespace

std::string authentication_code(std::string_view secret, std::string_view purpose, std::string_view bytes) {
  // A key for each purpose: a code for one is none for another.
  return hmac(hmac(secret, purpose), bytes);
}

bool same_code(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string random_nonce() {
  const std::uint64_t numbers[] = {random_incarnation(), random_incarnation()};
  return std::string(reinterpret_cast<const char*>(numbers), sizeof(numbers));
}

}  // namespace lockstep::coordination
