// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

// HTTP/2, for tests that write it by hand.

namespace lockstep::coordination {

inline std::string big_endian(std::uint64_t number, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) text += static_cast<char>(number >> shift);
  return text;
}

inline std::string http_frame(int type, int flags, std::uint32_t stream, const std::string& payload) {
  return big_endian(payload.size(), 3) + static_cast<char>(type) + static_cast<char>(flags) +
         big_endian(stream, 4) + payload;
}

/// With which a client begins a connection.
inline const std::string kHttpPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + http_frame(4, 0, 0, "");

}  // namespace lockstep::coordination
