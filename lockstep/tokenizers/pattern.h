// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/tokenizers/settings.h"

namespace lockstep::tokenizers {

/// A part of a text, from one byte to another.
struct Section {
  std::size_t begin;
  std::size_t end;
  bool matches;  ///< a pattern
};

/// Divides a text into what matches and what is between. A match may be empty.
using Pattern = std::function<std::vector<Section>(std::string_view text)>;

/// Each character for which the function is true is a match.
Pattern character_pattern(bool (*matches)(char32_t));

/// The text itself; an empty one matches nowhere.
Pattern literal_pattern(std::string text);

/// A regular expression with the syntax of Oniguruma as `to_pcre2` reads it. Throws a DataError that begins
/// with `where` if it is wrong or not supported. Matching throws a DataError where it takes more than 10
/// million steps or 32 MiB for a match.
Pattern regex_pattern(const std::string& regex, const std::string& where);

/// Of a field {"String": ...} or {"Regex": ...}.
Pattern pattern_of(Settings& settings, std::string_view name);

/// The bytes that a text may have on its way through a tokenizer: a file could make it longer in each step.
inline constexpr std::size_t kLongestText = std::size_t{1} << 28;

/// Throws a DataError if a text has become longer than this.
void check_length(std::size_t bytes);

/// The text, of which these are the sections, with `content` for each match. Throws as `check_length`.
std::string replaced(std::string_view text, const std::vector<Section>& sections, std::string_view content);

/// The regular expression of Oniguruma in the syntax of PCRE2, such that both match the same, with the
/// options UTF, UCP and MULTILINE. Throws a DataError that begins with `where` for what differs or is not
/// known: back-references, \K and other calls, options but i, intersections and negated classes within
/// classes.
std::string to_pcre2(std::string_view regex, const std::string& where);

/// The characters of words by Unicode, as they stand between brackets. Oniguruma's \w has six more.
inline constexpr std::string_view kWordClass = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";

}  // namespace lockstep::tokenizers
