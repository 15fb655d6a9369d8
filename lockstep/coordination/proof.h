#pragma once

#include <string>
#include <string_view>

namespace lockstep::coordination {

/// An HMAC (SHA-256) of the text: who shows it has the secret, which does not travel.
std::string proof_of(std::string_view secret, std::string_view text);

/// Whether they are equal, in a time that does not tell where they differ.
bool same_proof(std::string_view a, std::string_view b);

}  // namespace lockstep::coordination
