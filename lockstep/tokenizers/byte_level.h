// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep::tokenizers {

// Bytes as characters, one for each, as GPT-2's vocabulary has them: a byte that is a visible character of
// Latin-1 is this one, the others are the characters from U+0100 on.

/// The bytes of a text as such characters.
std::string to_byte_level(std::string_view text);

/// Appends the bytes of a text of such characters; the text itself if it has another character.
void append_from_byte_level(std::string_view text, std::string& bytes);

}  // namespace lockstep::tokenizers
