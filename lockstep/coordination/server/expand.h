// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace lockstep::coordination {

/// The bytes of a message, which JAX's processes compress by gzip; others are returned as they are, because
/// no message of the protocol begins as gzip does. nullopt if they are damaged or would have more than
/// `largest` bytes; never needs more memory than that, and some KiB.
std::optional<std::string> expanded(std::string bytes, std::size_t largest);

}  // namespace lockstep::coordination
