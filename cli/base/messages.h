// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

/// The messages between the launcher and its agents on other hosts: words, the first of which is the type. A
/// word may contain any bytes.
using Message = std::vector<std::string>;

/// The message as one line, including its end: words separated by tabs, with \t, \n, \r, \0 and \\ escaped.
std::string to_line(const Message& message);
std::string to_line_without_end(const Message& message);

/// The message in a line without its end; nullopt for an escape that to_line does not write.
std::optional<Message> from_line(std::string_view line);

/// Removes the complete lines from a buffer to which bytes are appended. The first `searched` bytes have no
/// end of a line.
std::vector<std::string> take_lines(std::string& buffer, std::size_t searched = 0);

/// The decimal number; throws Error, with the word, for anything else.
long number_of(const std::string& word);

/// The same for an int; also throws Error if the number is too large for one.
int int_of(const std::string& word);

}  // namespace lockstep::cli
