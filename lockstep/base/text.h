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

/// Whether the text is UTF-8: without overlong forms, surrogates, numbers above U+10FFFF and characters that
/// are cut off.
bool is_utf8(std::string_view text);

/// The first `most` bytes at most, where a character of UTF-8 is whole or left out.
std::string_view first_bytes(std::string_view text, std::size_t most);

/// Without the character at the end that is cut off, if there is one: the kernel cuts names at a byte.
std::string_view whole_characters(std::string_view text);

inline constexpr std::size_t kLongestShown = 1024;

/// The text as it can be shown within one line, as UTF-8. Bytes that are not UTF-8, and control characters,
/// become
/// "\xe9", or "\n", "\r" and "\t"; control characters of more than one byte, among them those that turn the
/// direction of text, become "\u202e". If it would have more than `most` bytes, it ends with "... (65536
/// bytes)" within them, which is the length of `text`. The same for what it has returned.
std::string shown(std::string_view text, std::size_t most = kLongestShown);

/// The same for several lines: line ends and tabs stay.
std::string shown_lines(std::string_view text, std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace lockstep
