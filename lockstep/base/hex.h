// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace lockstep {

/// Two lower-case hexadecimal digits for each byte.
std::string to_hex(const std::string& bytes);

/// The bytes of such a text; anything may come from another one.
std::string from_hex(const std::string& text);

/// So many random bytes of the kernel, as to_hex writes them: 16 are enough for a secret. Throws Error if the
/// kernel gives none.
std::string random_hex(std::size_t bytes);

}  // namespace lockstep
