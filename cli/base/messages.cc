// SPDX-License-Identifier: Apache-2.0
#include "cli/base/messages.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "lockstep/base/fail.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kSpecial("\t\n\r\0\\", 5);
constexpr std::string_view kLetters = "tnr0\\";

}  // namespace

std::string to_line(const Message& message) { return to_line_without_end(message) + '\n'; }

std::string to_line_without_end(const Message& message) {
  std::string line;
  for (const std::string& word : message) {
    if (&word != &message.front()) line += '\t';
    std::string_view rest = word;
    while (!rest.empty()) {
      const std::size_t plain = rest.find_first_of(kSpecial);
      line += rest.substr(0, plain);
      if (plain == std::string_view::npos) break;
      line += '\\';
      line += kLetters[kSpecial.find(rest[plain])];
      rest.remove_prefix(plain + 1);
    }
  }
  return line;
}

std::optional<Message> from_line(std::string_view line) {
  Message message(1);
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\t') {
      message.emplace_back();
    } else if (line[i] != '\\') {
      message.back() += line[i];
    } else {
      const std::size_t letter = ++i < line.size() ? kLetters.find(line[i]) : std::string_view::npos;
      if (letter == std::string_view::npos) return std::nullopt;
      message.back() += kSpecial[letter];
    }
  }
  return message;
}

std::vector<std::string> take_lines(std::string& buffer, std::size_t searched) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end; (end = buffer.find('\n', std::max(begin, searched))) != std::string::npos;
       begin = end + 1) {
    lines.push_back(buffer.substr(begin, end - begin));
  }
  buffer.erase(0, begin);
  return lines;
}

long number_of(const std::string& word) {
  long number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) fail("'{}' is not a number", word);
  return number;
}

int int_of(const std::string& word) {
  const long number = number_of(word);
  if (!std::in_range<int>(number)) fail("'{}' is too large a number", word);
  return static_cast<int>(number);
}

}  // namespace lockstep::cli
