// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tokenizers {

/// The table by which sentencepiece normalizes (`precompiled_charsmap`): four bytes with the size of a double
/// array of 32-bit units, the array, which holds the keys, and the texts that replace them, each of which
/// ends with a zero byte. All numbers are little-endian.
class Charsmap {
 public:
  /// Of base64. Throws a DataError that begins with `where` if it is damaged.
  Charsmap(std::string_view base64, const std::string& where);

  /// Appends what replaces the beginning of a part of a text: what belongs to the shortest key with which it
  /// begins, as in the package tokenizers, or to the longest, as in sentencepiece. Returns the key's bytes, 0
  /// if there is none. Throws a DataError if the table is damaged there.
  std::size_t append(std::string_view part, std::string& text, bool longest = false) const;

 private:
  std::size_t find(std::string_view part, bool longest, std::size_t& begin) const;

  std::string where_;
  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace lockstep::tokenizers
