// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "lockstep/base/fail.h"

namespace lockstep {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

bool continues(unsigned char byte) { return (byte & 0xc0) == 0x80; }

/// How many bytes the character has that this byte begins; 0 if none begins with it.
std::size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;
  if (first < 0xe0) return 2;
  if (first < 0xf0) return 3;
  return first < 0xf5 ? 4 : 0;
}

/// Whether the second byte may follow the first: what it excludes are overlong forms, surrogates and numbers
/// above U+10FFFF.
bool may_follow(unsigned char first, unsigned char second) {
  if (!continues(second)) return false;
  switch (first) {
    case 0xe0:
      return second >= 0xa0;
    case 0xed:
      return second < 0xa0;
    case 0xf0:
      return second >= 0x90;
    case 0xf4:
      return second < 0x90;
    default:
      return true;
  }
}

/// The length of the character that stands at the beginning; 0 if there is none, or only a part of one.
std::size_t character(std::string_view text) {
  const std::size_t length = text.empty() ? 0 : length_of(byte_at(text, 0));
  if (length == 0 || length > text.size()) return 0;
  if (length > 1 && !may_follow(byte_at(text, 0), byte_at(text, 1))) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if (!continues(byte_at(text, i))) return 0;
  return length;
}

char32_t code_point(std::string_view character) {
  const auto first = byte_at(character, 0);
  char32_t code = character.size() == 1 ? first : first & (0x7fu >> character.size());
  for (std::size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte_at(character, i) & 0x3fu);
  return code;
}

/// Controls of terminals and of the direction of text, and what ends a line.
bool is_control(char32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c ||
         (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

std::string show(std::string_view text, std::size_t most, bool lines) {
  std::string result;
  std::size_t room = most;  // of what is kept if the whole does not fit
  const std::string mark = text.size() > most / 8 ? fmt::format("... ({} bytes)", text.size()) : "";
  const std::size_t kept = most > mark.size() ? most - mark.size() : 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character(text.substr(at));
    const std::string_view one = text.substr(at, std::max<std::size_t>(length, 1));
    const std::size_t before = result.size();
    if (length == 0) {
      fmt::format_to(std::back_inserter(result), "\\x{:02x}", byte_at(one, 0));
    } else if (const char32_t code = code_point(one);
               !is_control(code) || (lines && (code == '\n' || code == '\t'))) {
      result += one;
    } else if (code == '\n' || code == '\r' || code == '\t') {
      result += code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t";
    } else if (code < 0x80) {
      fmt::format_to(std::back_inserter(result), "\\x{:02x}", static_cast<unsigned>(code));
    } else {
      fmt::format_to(std::back_inserter(result), "\\u{:04x}", static_cast<unsigned>(code));
    }
    if (before <= kept && result.size() > kept) room = before;
    if (result.size() > most) return result.substr(0, room) + mark.substr(0, most);
    at += one.size();
  }
  return result;
}

}  // namespace

std::size_t valid_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = character(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

bool is_utf8(std::string_view text) { return valid_bytes(text) == text.size(); }

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::string_view whole_characters(std::string_view text) {
  std::size_t begun = text.size();
  while (begun > 0 && text.size() - begun < 3 && continues(byte_at(text, begun - 1))) --begun;
  if (begun == 0) return text;
  const std::size_t length = length_of(byte_at(text, begun - 1));
  const std::size_t there = text.size() - begun + 1;
  return length > there ? text.substr(0, begun - 1) : text;
}

std::string_view first_bytes(std::string_view text, std::size_t most) {
  return text.size() <= most ? text : whole_characters(text.substr(0, most));
}

std::string shown(std::string_view text, std::size_t most) { return show(text, most, /*lines=*/false); }

std::string internal::shown_message(std::string message) { return shown_lines(message); }

std::string shown_lines(std::string_view text, std::size_t most) { return show(text, most, /*lines=*/true); }

}  // namespace lockstep
