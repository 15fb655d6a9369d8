// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// A number of bytes for display: "512 B", "1.5 GiB".
std::string amount_of_bytes(std::uint64_t bytes);

}  // namespace lockstep
