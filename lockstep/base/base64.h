// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// The bytes as base64 (RFC 4648), with padding.
std::string to_base64(const std::string& bytes);

}  // namespace lockstep
