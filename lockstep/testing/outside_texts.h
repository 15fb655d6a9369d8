// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::testing {

struct OutsideText {
  std::string what, text;
};

/// Texts as they may come from outside, one of each kind, for tests of anything that takes a text.
inline std::vector<OutsideText> outside_texts() {
  using namespace std::string_literals;
  std::string long_text;
  for (int i = 0; i < 65536 / 3; ++i) long_text += "中";
  return {
      {"empty", ""},
      {"plain", "train"},
      {"spaces", "  a  b  "},
      {"UTF-8", "données 中文 🙂"},
      {"Latin-1",
       "donn\xe9"
       "es"},
      {"a character cut off", "apprentissage-\xc3"},
      {"a character without its first byte", "\xa9quilibre"},
      {"an overlong form", "\xc0\xaf"},
      {"an overlong form of three bytes", "\xe0\x80\xaf"},
      {"a surrogate", "\xed\xa0\x80"},
      {"above the last number", "\xf4\x90\x80\x80"},
      {"bytes that UTF-8 never has", "\xff\xfe"},
      {"NUL", "a\0b"s},
      {"a line end", "a\nb\r\nc"},
      {"a tab", "a\tb"},
      {"an escape sequence", "\033[2J\033]0;title\007"},
      {"a control character of two bytes",
       "\xc2\x9b"
       "2J"},
      {"another direction", "a\u202eb"},
      {"directions and their ends", "\u202aa\u202bb\u202cc\u202d"},
      {"isolated directions", "\u2066a\u2067b\u2068c\u2069"},
      {"marks of direction", "a\u200eb\u200fc\u061cd"},
      {"line ends of Unicode", "a\u2028b\u2029c\u0085d"},
      {"a deleted character", "a\x7f"},
      {"folders above", "../../etc/passwd"},
      {"a path", "/a//b/./c/"},
      {"quotes", "\"'`<&>\\"},
      {"a format", "%s%n {} {0}"},
      {"another scheme", "gopher://host/x"},
      {"64 KiB", std::string(65536, 'x')},
      {"64 KiB of characters", long_text},
      {"64 KiB of invalid bytes", std::string(65536, '\xe9')},
  };
}

}  // namespace lockstep::testing
