// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokenizers/charsmap.h"

#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"

namespace lockstep::tokenizers {
namespace {

std::string from_base64(std::string_view text, const std::string& where) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::size_t size = text.find_last_not_of('=') + 1;
  std::string bytes;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t digit = kDigits.find(text[i]);
    if (digit == kDigits.npos)
      fail<DataError>("[tokenizers] {}: \"precompiled_charsmap\" is not base64 at byte {}", where, i);
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if (i % 4 != 0) bytes += static_cast<char>(bits >> (6 - i % 4 * 2) & 0xff);
  }
  return bytes;
}

std::uint32_t little_endian(std::string_view bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 4; i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

// A unit of the double array: the label of the byte that leads to it, the offset to those behind it, whether
// one of these is a value.
constexpr std::uint32_t kIsValue = std::uint32_t{1} << 31;
std::uint32_t label(std::uint32_t unit) { return unit & (kIsValue | 0xff); }
std::uint32_t offset(std::uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }
bool has_value(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }

}  // namespace

Charsmap::Charsmap(std::string_view base64, const std::string& where) : where_(where) {
  const std::string bytes = from_base64(base64, where);
  const std::size_t size = bytes.size() < 4 ? 0 : little_endian(bytes, 0);
  if (size == 0 || size % 4 != 0 || size > bytes.size() - 4)
    fail<DataError>(
        "[tokenizers] {}: \"precompiled_charsmap\" is damaged: it has {} bytes, and says that its keys take "
        "{}",
        where, bytes.size(), size);
  for (std::size_t at = 4; at < 4 + size; at += 4) units_.push_back(little_endian(bytes, at));
  texts_ = bytes.substr(4 + size);
  if (!is_utf8(texts_))
    fail<DataError>("[tokenizers] {}: \"precompiled_charsmap\" has texts that are not UTF-8", where);
}

std::size_t Charsmap::find(std::string_view part, bool longest, std::size_t& begin) const {
  std::size_t at = offset(units_[0]), size = 0;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const auto byte = static_cast<unsigned char>(part[i]);
    if (byte == 0) break;
    at ^= byte;
    if (at >= units_.size() || label(units_[at]) != byte) break;
    const std::uint32_t unit = units_[at];
    at ^= offset(unit);
    if (!has_value(unit)) continue;
    begin = at < units_.size() ? units_[at] & ~kIsValue : texts_.size();
    size = i + 1;
    if (!longest) break;
  }
  return size;
}

std::size_t Charsmap::append(std::string_view part, std::string& text, bool longest) const {
  std::size_t begin = 0;
  const std::size_t size = find(part, longest, begin);
  if (size == 0) return 0;
  const std::size_t end = texts_.find('\0', begin);
  if (end == texts_.npos || (static_cast<unsigned char>(texts_[begin]) & 0xc0) == 0x80)
    fail<DataError>("[tokenizers] {}: \"precompiled_charsmap\" is damaged: a text begins at byte {} of {}",
                    where_, begin, texts_.size());
  text.append(texts_, begin, end - begin);
  return size;
}

}  // namespace lockstep::tokenizers
