// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

// How the tool writes its own words. They may hold names from outside, which must not move a terminal's
// cursor or look like another line of the tool.

/// The words as they are written: without control characters, and with each further line indented.
std::string shown_words(std::string_view words);

/// "WHO: WORDS" as whole lines.
std::string own_line(std::string_view who, std::string_view words);

/// Writes own_line to standard error.
void say(std::string_view who, std::string_view words);

/// The columns that a text takes on a terminal: two for a wide character, none for a combining one.
std::size_t width_of(std::string_view text);

/// The text, cut to this number of columns; escape sequences do not count.
std::string fit(std::string_view text, int columns);

/// Lines whose columns are as wide as their widest entry, two spaces apart. `sides`: 'l' or 'r' for each
/// column, the side to which its entries are aligned. Entries are written as `shown` writes them.
std::string aligned(std::vector<std::vector<std::string>> rows, std::string_view sides);

}  // namespace lockstep::cli
