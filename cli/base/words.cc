// SPDX-License-Identifier: Apache-2.0
#include "cli/base/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cwchar>
#include <limits>

#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

/// The length of the character at the beginning of UTF-8; 1 for a byte that begins none.
std::size_t length_of(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  return std::min(length, text.size());
}

std::size_t width_of_character(std::string_view character) {
  if (character.size() == 1) return 1;
  // The user's own locale may know ASCII only.
  static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (utf8 == nullptr) return 1;
  const locale_t before = uselocale(utf8);
  wchar_t code = 0;
  std::mbstate_t state{};
  const std::size_t read = std::mbrtowc(&code, character.data(), character.size(), &state);
  const int width = read == character.size() ? wcwidth(code) : 1;
  uselocale(before);
  return width < 0 ? 1 : static_cast<std::size_t>(width);
}

}  // namespace

std::string shown_words(std::string_view words) {
  constexpr std::string_view kIndent = "  ";
  const std::string lines = shown_lines(words);
  std::string text;
  for (std::size_t begin = 0; begin <= lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    const std::string_view line = std::string_view(lines).substr(begin, end - begin);
    if (begin > 0) text += '\n';
    if (begin > 0 && !line.empty() && !line.starts_with(kIndent)) text += kIndent;
    text += line;
    begin = end + 1;
  }
  return text;
}

std::string own_line(std::string_view who, std::string_view words) {
  return fmt::format("{}: {}\n", who, shown_words(words));
}

void say(std::string_view who, std::string_view words) { std::fputs(own_line(who, words).c_str(), stderr); }

std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view character = text.substr(at, length_of(text.substr(at)));
    width += width_of_character(character);
    at += character.size();
  }
  return width;
}

std::string fit(std::string_view text, int columns) {
  std::size_t used = 0, i = 0;
  while (i < text.size()) {
    if (text[i] == 0x1b && i + 1 < text.size() && text[i + 1] == '[') {
      std::size_t end = i + 2;
      while (end < text.size() && (text[end] < 0x40 || text[end] > 0x7e)) ++end;
      i = std::min(end + 1, text.size());
      continue;
    }
    const std::string_view character = text.substr(i, length_of(text.substr(i)));
    used += width_of_character(character);
    if (used > static_cast<std::size_t>(std::max(columns, 0))) break;
    i += character.size();
  }
  return std::string(text.substr(0, i));
}

std::string aligned(std::vector<std::vector<std::string>> rows, std::string_view sides) {
  std::vector<std::size_t> widths(sides.size());
  for (auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = shown(row[i], kNoLimit);
      widths[i] = std::max(widths[i], width_of(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - width_of(row[i]), ' ');
      line += sides[i] == 'r' ? space + row[i] + "  " : row[i] + space + "  ";
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace lockstep::cli
