// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace lockstep {

// Text that comes from outside: names that users give, names of hosts and programs, messages of exceptions,
// what other processes send. It may hold any bytes. What is only compared or passed on (values of the store,
// output, file names) stays as it is. What people read, and what goes into JSON or a protocol's text field,
// passes through `shown` or `shown_lines` where it enters.

/// How many bytes at the beginning are UTF-8: whole characters, as `is_utf8` takes them.
std::size_t valid_bytes(std::string_view text);

/// Whether the text is UTF-8: without overlong forms, surrogates, numbers above U+10FFFF and incomplete
/// characters.
bool is_utf8(std::string_view text);

/// At most the first `most` bytes, cut between two characters.
std::string_view first_bytes(std::string_view text, std::size_t most);

/// The text without an incomplete character at its end: the kernel cuts names after any byte.
std::string_view whole_characters(std::string_view text);

/// The text with a to z in place of A to Z.
std::string lower_case(std::string_view text);

/// The text without the blanks at both ends.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r\n");

inline constexpr std::size_t kLongestShown = 1024;

/// The text as one line of UTF-8. Bytes that are not UTF-8 become "\xe9"; control characters become "\n" or
/// "\x1b", and those outside ASCII, such as those that change the direction of text, "\u202e". What would be
/// longer than `most` bytes is cut, and ends with the length of `text`, "... (65536 bytes)", within `most`.
/// shown(shown(text)) is shown(text).
std::string shown(std::string_view text, std::size_t most = kLongestShown);

/// The same for text of several lines: line ends and tabs stay.
std::string shown_lines(std::string_view text, std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace lockstep
