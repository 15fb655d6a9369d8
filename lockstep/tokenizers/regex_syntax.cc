// SPDX-License-Identifier: Apache-2.0
#include <cctype>

#include "lockstep/base/fail.h"
#include "lockstep/tokenizers/pattern.h"

namespace lockstep::tokenizers {
namespace {

/// Reads a regular expression from left to right and writes it anew.
class Translation {
 public:
  Translation(std::string_view regex, const std::string& where) : regex_(regex), where_(where) {}

  std::string run() {
    while (at_ < regex_.size()) {
      const char c = regex_[at_++];
      if (c == '\\') {
        escape();
      } else if (brackets_ > 0) {
        in_class(c);
      } else if (c == '[') {
        open_class();
      } else if (c == '(') {
        group();
      } else {
        if (c == '{' && next_is(",")) refuse("{,n}");
        if (c == '}' && next_is("+")) refuse("}+");
        result_ += c;
      }
    }
    return std::move(result_);
  }

 private:
  bool next_is(std::string_view text) const { return regex_.substr(at_).starts_with(text); }

  [[noreturn]] void refuse(std::string_view what) const {
    fail<DataError>("[tokenizers] {}: {} in the regular expression {} is not supported", where_, what,
                    regex_);
  }

  void in_class(char c) {
    if (c == '[') {
      if (next_is("^") || next_is(":")) refuse(next_is("^") ? "a [^...] within brackets" : "[:name:]");
      ++brackets_;  // a union, which is written as one class
    } else if (c == ']') {
      if (--brackets_ == 0) result_ += c;
    } else if (c == '&' && next_is("&")) {
      refuse("&&");
    } else {
      result_ += c;
    }
  }

  void open_class() {
    brackets_ = 1;
    result_ += '[';
    if (next_is("^")) result_ += regex_[at_++];
    if (next_is("]")) result_ += "\\" + std::string(1, regex_[at_++]);
  }

  void group() {
    if (next_is("*")) refuse("(*");
    result_ += '(';
    if (!next_is("?")) return;
    for (const std::string_view kind : {"?:", "?=", "?!", "?<=", "?<!", "?>", "?i:", "?i)", "?-i:", "?-i)"}) {
      if (!next_is(kind)) continue;
      result_ += kind;
      at_ += kind.size();
      return;
    }
    refuse("this (?");
  }

  void escape() {
    if (at_ == regex_.size()) refuse("\\ at the end");
    const char c = regex_[at_++];
    const bool alone = brackets_ == 0;
    const std::string word = oniguruma_word();
    switch (c) {
      case 's':
        result_ += "\\p{White_Space}";
        return;
      case 'S':
        result_ += "\\P{White_Space}";
        return;
      case 'd':
        result_ += "\\p{Nd}";
        return;
      case 'D':
        result_ += "\\P{Nd}";
        return;
      case 'w':
        result_ += alone ? "[" + word + "]" : std::string(kWordClass);
        return;
      case 'h':
        result_ += alone ? "[0-9a-fA-F]" : "0-9a-fA-F";
        return;
      case 'v':
        result_ += "\\x0b";
        return;
      case 'p':
      case 'P':
        property(c);
        return;
      case 'u':
      case 'x':
        code_point(c);
        return;
      case 'W':
      case 'b':
      case 'B':
      case 'A':
      case 'z':
      case 'Z':
        if (!alone) refuse(std::string("\\") + c + " within brackets");
        result_ += c == 'W'   ? "[^" + word + "]"
                   : c == 'b' ? boundary("!", "=")
                   : c == 'B' ? boundary("=", "!")
                              : std::string("\\") + c;
        return;
      default:
        if (std::isalnum(static_cast<unsigned char>(c)) && c != 'n' && c != 'r' && c != 't' && c != 'f')
          refuse(std::string("\\") + c);
        result_ += '\\';
        result_ += c;
    }
  }

  /// The characters of \w: the six are the superscripts and fractions of Latin-1.
  static std::string oniguruma_word() {
    return fmt::format("{}{}", kWordClass, "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}");
  }

  /// Between a word's character and one that is none; or, with the arguments exchanged, anywhere else.
  static std::string boundary(std::string_view differs, std::string_view equals) {
    return fmt::format("(?:(?<=[{0}])(?{1}[{0}])|(?<![{0}])(?{2}[{0}]))", oniguruma_word(), differs, equals);
  }

  void property(char c) {
    const std::size_t end = regex_.find('}', at_);
    if (!next_is("{") || end == regex_.npos) refuse("\\p without braces");
    std::string_view name = regex_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    const bool negated = name.starts_with("^");
    if (negated) name.remove_prefix(1);
    for (const char letter : name)
      if (!std::isalpha(static_cast<unsigned char>(letter)) && letter != '_')
        refuse("this name of a property");
    const bool category = name.size() <= 2;
    const bool script =
        !category && name != "Alphabetic" && name != "White_Space" && !name.starts_with("Emoji");
    // Without sc: a script would also be what is in its extensions.
    result_ += fmt::format("\\{}{{{}{}}}", negated != (c == 'P') ? 'P' : 'p', script ? "sc:" : "", name);
  }

  void code_point(char c) {
    std::string_view digits;
    if (c == 'x' && next_is("{")) {
      const std::size_t end = regex_.find('}', at_);
      if (end == regex_.npos) refuse("\\x{");
      digits = regex_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
    } else {
      digits = regex_.substr(at_, c == 'x' ? 2 : 4);
      if (digits.size() != (c == 'x' ? 2 : 4) || (c == 'x' && digits[0] > '7'))
        refuse(c == 'x' ? "\\x" : "\\u");
      at_ += digits.size();
    }
    for (const char digit : digits)
      if (!std::isxdigit(static_cast<unsigned char>(digit))) refuse("this number of a character");
    result_ += fmt::format("\\x{{{}}}", digits);
  }

  std::string_view regex_;
  const std::string& where_;
  std::string result_;
  std::size_t at_ = 0;
  int brackets_ = 0;
};

}  // namespace

std::string to_pcre2(std::string_view regex, const std::string& where) {
  return Translation(regex, where).run();
}

}  // namespace lockstep::tokenizers
