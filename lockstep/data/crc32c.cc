// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace lockstep::data::internal {
namespace {

/// kTables[k][b] is the CRC of byte b followed by k zeros: eight bytes are looked up at a time.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    tables[0][b] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t b = 0; b < 256; ++b)
      tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 255];
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static_assert(std::endian::native == std::endian::little);
  std::uint32_t crc = ~0u;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    word ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 255];
  }
  for (; i < bytes.size(); ++i)
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<std::uint8_t>(bytes[i])) & 255];
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

}  // namespace lockstep::data::internal
