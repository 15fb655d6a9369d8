// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/testing/outside_texts.h"

namespace lockstep {
namespace {

std::string encoded(char32_t code) {
  const auto byte = [](char32_t bits) { return static_cast<char>(bits); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xc0 | code >> 6), byte(0x80 | (code & 0x3f))};
  if (code < 0x10000)
    return {byte(0xe0 | code >> 12), byte(0x80 | (code >> 6 & 0x3f)), byte(0x80 | (code & 0x3f))};
  return {byte(0xf0 | code >> 18), byte(0x80 | (code >> 12 & 0x3f)), byte(0x80 | (code >> 6 & 0x3f)),
          byte(0x80 | (code & 0x3f))};
}

bool is_code_point(char32_t code) { return code <= 0x10ffff && (code < 0xd800 || code >= 0xe000); }

/// The result of is_utf8, computed in another way: each character encodes the code point in its bits.
bool is_utf8_by_encoding(const std::string& text) {
  if (text.empty()) return true;
  constexpr unsigned kBitsOfFirst[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  for (std::size_t n = 1; n <= std::min<std::size_t>(4, text.size()); ++n) {
    char32_t code = static_cast<unsigned char>(text[0]) & kBitsOfFirst[n];
    for (std::size_t i = 1; i < n; ++i) code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
    if (is_code_point(code) && text.compare(0, n, encoded(code)) == 0)
      return is_utf8_by_encoding(text.substr(n));
  }
  return false;
}

/// Visits each text of `length` bytes, all of which are in `bytes`.
void for_each_text(std::size_t length, const std::string& bytes,
                   const std::function<void(const std::string&)>& visit) {
  std::string text(length, bytes.front());
  std::vector<std::size_t> at(length, 0);
  while (true) {
    visit(text);
    std::size_t place = 0;
    while (place < length && ++at[place] == bytes.size()) at[place++] = 0;
    if (place == length) return;
    for (std::size_t i = 0; i <= place; ++i) text[i] = bytes[at[i]];
  }
}

// The first and the last byte of each class in UTF-8's table, and their neighbours.
const std::string kTelling(
    "\x00\x1f\x41\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1"
    "\xf3\xf4\xf5\xf8\xff",
    27),
    kMostTelling("\x41\x80\x8f\x90\x9f\xa0\xbf\xc2\xe0\xed\xef\xf0\xf4\xf5");

TEST(Text, IsUtf8_IsTrueOnlyForEncodedCodePoints) {
  std::string all_bytes;
  for (int i = 0; i < 256; ++i) all_bytes += static_cast<char>(i);
  const auto check = [](const std::string& text) {
    ASSERT_EQ(is_utf8(text), is_utf8_by_encoding(text)) << shown(text);
  };
  for_each_text(1, all_bytes, check);
  for_each_text(2, all_bytes, check);
  for_each_text(3, kTelling, check);
  for_each_text(4, kMostTelling, check);
  for (char32_t code = 0; code <= 0x10ffff; ++code)
    ASSERT_EQ(is_utf8(encoded(code)), is_code_point(code)) << shown(encoded(code));
}

TEST(Text, Shown_OfAnyBytes_IsOneLineOfUtf8_AndIdempotent) {
  std::vector<std::string> texts;
  for (const auto& [what, text] : testing::outside_texts()) texts.push_back(text);
  for_each_text(3, kMostTelling, [&](const std::string& text) { texts.push_back(text + "é" + text); });
  for (const std::string& text : texts) {
    for (const std::size_t most : {0ul, 1ul, 5ul, 20ul, 24ul, 1024ul}) {
      const std::string one = shown(text, most);
      ASSERT_TRUE(is_utf8(one)) << one;
      ASSERT_LE(one.size(), most);
      ASSERT_EQ(shown(one, most), one);
      ASSERT_EQ(one.find_first_of(std::string("\0\n\r\t\033\x7f", 6)), one.npos);
      const std::string lines = shown_lines(text, most);
      ASSERT_TRUE(is_utf8(lines));
      ASSERT_LE(lines.size(), most);
      ASSERT_EQ(shown_lines(lines, most), lines);
    }
  }
}

TEST(Text, Shown_EscapesInvalidBytesAndControlCharacters) {
  EXPECT_EQ(shown("données 中文 🙂"), "données 中文 🙂");
  EXPECT_EQ(shown("donn\xe9"
                  "es"),
            "donn\\xe9es");
  EXPECT_EQ(shown(std::string("a\0b\033\n\t\r\x7f", 8)), "a\\x00b\\x1b\\n\\t\\r\\x7f");
  EXPECT_EQ(shown_lines("a\tb\n\033"), "a\tb\n\\x1b");
  EXPECT_EQ(shown("\xc2\x9b|\u202e|\u2028"), "\\u009b|\\u202e|\\u2028");
  EXPECT_EQ(shown("\xed\xa0\x80|\xc0\xaf"), "\\xed\\xa0\\x80|\\xc0\\xaf");
  EXPECT_EQ(shown(std::string(1000, 'x'), 20), "xxxx... (1000 bytes)");
  EXPECT_EQ(shown("ééééééééééééééé", 20), "ééé... (30 bytes)");
  EXPECT_EQ(shown("\xe9\xe9\xe9\xe9\xe9", 19), "\\xe9... (5 bytes)");
}

TEST(Text, FirstBytes_CutsBetweenCharacters) {
  EXPECT_EQ(first_bytes("données", 4), "donn");
  EXPECT_EQ(first_bytes("données", 5), "donn");
  EXPECT_EQ(first_bytes("données", 6), "donné");
  EXPECT_EQ(first_bytes("🙂", 3), "");
  EXPECT_EQ(first_bytes("🙂", 4), "🙂");
  EXPECT_EQ(whole_characters("apprentissage-\xc3"), "apprentissage-");
  EXPECT_EQ(whole_characters("\xe4\xb8"), "");
  EXPECT_EQ(whole_characters("é"), "é");
  // Bytes that begin no character are not taken for one that is cut off.
  EXPECT_EQ(whole_characters("a\x80\x80"), "a\x80\x80");
  EXPECT_EQ(whole_characters("\x80"), "\x80");
}

}  // namespace
}  // namespace lockstep
