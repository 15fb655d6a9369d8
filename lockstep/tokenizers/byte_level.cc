// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokenizers/byte_level.h"

#include <array>

#include "lockstep/tokenizers/unicode.h"

namespace lockstep::tokenizers {
namespace {

constexpr bool is_visible(int byte) { return (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad); }

constexpr int kCharacters = 0x144;  // above the last one

struct ByteTables {
  std::array<char32_t, 256> character{};
  std::array<int, kCharacters> byte{};
};

constexpr ByteTables kByteTables = [] {
  ByteTables tables;
  tables.byte.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t c = is_visible(byte) ? static_cast<char32_t>(byte) : next++;
    tables.character[static_cast<std::size_t>(byte)] = c;
    tables.byte[c] = byte;
  }
  return tables;
}();

}  // namespace

std::string to_byte_level(std::string_view text) {
  std::string result;
  for (const char c : text) append_character(result, kByteTables.character[static_cast<unsigned char>(c)]);
  return result;
}

void append_from_byte_level(std::string_view text, std::string& bytes) {
  const std::size_t before = bytes.size();
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (c >= kCharacters || kByteTables.byte[c] < 0) {
      bytes.resize(before);
      bytes += text;
      return;
    }
    bytes += static_cast<char>(kByteTables.byte[c]);
  }
}

}  // namespace lockstep::tokenizers
