#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

/// What the launcher and its agents on other hosts tell each other: words, the first of which says what it
/// is. A word is any bytes.
using Message = std::vector<std::string>;

/// The message as one line with its end: words between tabs, with \t, \n, \r, \0 and \\ for what would break
/// it.
std::string to_line(const Message& message);

/// The message of a line without its end; nullopt where it has a backslash that to_line does not write.
std::optional<Message> from_line(std::string_view line);

/// Takes the whole lines out of a buffer that bytes are appended to, and leaves the unfinished one.
std::vector<std::string> take_lines(std::string& buffer);

/// The decimal number; throws Error, naming the word, where it is none.
long number_of(const std::string& word);

}  // namespace lockstep::cli
