// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>

// For tests of the files of compiled programs.

namespace lockstep::test {

/// Where the machine code begins, the last field of the message: its tag, its length, and as many bytes.
inline std::size_t begin_of_code(std::string_view message) {
  for (std::size_t at = 0; at < message.size(); ++at) {
    if (message[at] != 0x42) continue;
    std::uint64_t length = 0;
    std::size_t next = at + 1;
    for (int shift = 0; next < message.size() && shift < 63; shift += 7) {
      const auto byte = static_cast<unsigned char>(message[next++]);
      length |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    if (length > 100 && next + length == message.size()) return at;
  }
  throw std::logic_error("no machine code");
}

}  // namespace lockstep::test
