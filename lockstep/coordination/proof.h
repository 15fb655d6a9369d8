#pragma once

#include <string>
#include <string_view>

namespace lockstep::coordination {

/// What only who has the secret can make of the bytes, for one purpose: an HMAC (SHA-256), 32 bytes. The
/// secret itself does not travel.
std::string authentication_code(std::string_view secret, std::string_view purpose, std::string_view bytes);

/// Whether two codes are equal, in a time that does not tell where they differ.
bool same_code(std::string_view a, std::string_view b);

/// An unpredictable number, in 16 bytes.
std::string random_nonce();

}  // namespace lockstep::coordination
