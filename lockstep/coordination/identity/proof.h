// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep::coordination {

/// A code that only a holder of the secret can compute from the bytes, for one purpose: an HMAC (SHA-256), 32
/// bytes. The secret itself is never sent. Throws Error if OpenSSL cannot compute it.
std::string authentication_code(std::string_view secret, std::string_view purpose, std::string_view bytes);

/// Whether two codes are equal, compared in constant time. False if there are none: an empty text proves
/// nothing.
bool same_code(std::string_view a, std::string_view b);

/// An unpredictable number of 16 bytes.
std::string random_nonce();

}  // namespace lockstep::coordination
