// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::tokenizers {

// Characters of UTF-8. Except where said, texts must be valid, as `Tokenizer` has checked.

/// The character at the byte `at`, which is moved behind it.
char32_t next_character(std::string_view text, std::size_t& at);

void append_character(std::string& text, char32_t c);

/// Bytes as text: each longest start of a character that is not complete, and each byte that is in no
/// character, becomes U+FFFD.
std::string with_replacements(std::string_view bytes);

bool is_white_space(char32_t c);      ///< the property White_Space
bool is_punctuation(char32_t c);      ///< of ASCII also symbols, otherwise the categories P*
bool is_numeric(char32_t c);          ///< N*
bool is_mark(char32_t c);             ///< M*
bool is_nonspacing_mark(char32_t c);  ///< Mn
bool is_control(char32_t c);          ///< C*, but not what is unassigned

enum class Form { kNfc, kNfd, kNfkc, kNfkd };

/// The text in a normalization form.
std::string normalized(std::string_view text, Form form);

/// Each character in lower case, without regard to those around it.
std::string lowered(std::string_view text);

/// The byte behind the grapheme cluster that begins at the byte `at`.
std::size_t grapheme_end(std::string_view text, std::size_t at);

}  // namespace lockstep::tokenizers
