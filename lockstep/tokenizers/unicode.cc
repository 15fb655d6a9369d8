// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokenizers/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"

namespace lockstep::tokenizers {
namespace {

/// The bytes that could begin a character, at the start of a text that begins with no whole one; at least 1.
std::size_t incomplete_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t whole = first >= 0xf0 && first <= 0xf4 ? 4 : first >= 0xe0 && first < 0xf0 ? 3 : 1;
  std::size_t bytes = 1;
  while (bytes < whole && bytes < text.size()) {
    const bool second = bytes == 1;
    const unsigned char least = second && first == 0xe0 ? 0xa0 : second && first == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = second && first == 0xed ? 0x9f : second && first == 0xf4 ? 0x8f : 0xbf;
    if (byte(bytes) < least || byte(bytes) > most) break;
    ++bytes;
  }
  return bytes;
}

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

char32_t next_character(std::string_view text, std::size_t& at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) {
    ++at;
    return first;
  }
  utf8proc_int32_t c;
  const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                                      static_cast<utf8proc_ssize_t>(text.size() - at), &c);
  if (bytes <= 0) fail_internally("[tokenizers] a text is not UTF-8 at byte {} of {}", at, text.size());
  at += static_cast<std::size_t>(bytes);
  return static_cast<char32_t>(c);
}

void append_character(std::string& text, char32_t c) {
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

std::string with_replacements(std::string_view bytes) {
  std::string text;
  while (true) {
    const std::size_t valid = valid_bytes(bytes);
    text += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) return text;
    text += "\xef\xbf\xbd";
    bytes.remove_prefix(incomplete_bytes(bytes));
  }
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') || (c > 'z' && c < 0x7f);
  return category(c) >= UTF8PROC_CATEGORY_PC && category(c) <= UTF8PROC_CATEGORY_PO;
}

bool is_numeric(char32_t c) {
  return category(c) >= UTF8PROC_CATEGORY_ND && category(c) <= UTF8PROC_CATEGORY_NO;
}

bool is_mark(char32_t c) {
  return category(c) >= UTF8PROC_CATEGORY_MN && category(c) <= UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(char32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; }

bool is_control(char32_t c) { return category(c) >= UTF8PROC_CATEGORY_CC; }

std::string normalized(std::string_view text, Form form) {
  if (is_ascii(text)) return std::string(text);
  const bool composes = form == Form::kNfc || form == Form::kNfkc;
  const bool compatible = form == Form::kNfkc || form == Form::kNfkd;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                     (compatible ? UTF8PROC_COMPAT : 0));
  // Not utf8proc_map, which takes quadratic time for many marks in a row.
  std::vector<utf8proc_int32_t> characters;
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t parts[32];
    int last_bounds = 0;
    const auto c = static_cast<utf8proc_int32_t>(next_character(text, at));
    const auto count = utf8proc_decompose_char(c, parts, 32, options, &last_bounds);
    if (count < 0 || count > 32) fail_internally("[tokenizers] U+{:04X} cannot be decomposed", c);
    characters.insert(characters.end(), parts, parts + count);
  }
  const auto combining = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (auto run = characters.begin(); run != characters.end();) {
    if (combining(*run) == 0) {
      ++run;
      continue;
    }
    const auto end = std::find_if(run, characters.end(), [&](auto c) { return combining(c) == 0; });
    std::stable_sort(run, end, [&](auto a, auto b) { return combining(a) < combining(b); });
    run = end;
  }
  const auto count =
      utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()), options);
  if (count < 0) fail_internally("[tokenizers] a text cannot be normalized");
  std::string result;
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    append_character(result, static_cast<char32_t>(characters[static_cast<std::size_t>(i)]));
  return result;
}

std::string lowered(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (c == 0x130) {  // the only letter whose lower case is two characters
      result += "i\xcc\x87";
    } else {
      append_character(result, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    }
  }
  return result;
}

std::size_t grapheme_end(std::string_view text, std::size_t at) {
  utf8proc_int32_t state = 0;
  auto last = static_cast<utf8proc_int32_t>(next_character(text, at));
  while (at < text.size()) {
    std::size_t next = at;
    const auto c = static_cast<utf8proc_int32_t>(next_character(text, next));
    if (utf8proc_grapheme_break_stateful(last, c, &state)) break;
    last = c;
    at = next;
  }
  return at;
}

}  // namespace lockstep::tokenizers
