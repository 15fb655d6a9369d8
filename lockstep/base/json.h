// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lockstep {

/// JSON is read and written by these functions, so that the library's parser and printer are compiled once;
/// only files whose entries have an order use nlohmann::ordered_json itself. Texts are UTF-8.

/// Throws nlohmann::json::parse_error for a text that is not JSON.
nlohmann::json parse_json(std::string_view text);

/// A value with `is_discarded()` for a text that is not JSON.
nlohmann::json try_parse_json(std::string_view text);

/// On one line; with `indent`, a line for each element. Throws nlohmann::json::type_error for a text in it
/// that is not UTF-8.
std::string json_text(const nlohmann::json& json, int indent = -1);

/// The same, for texts from outside: bytes that are not UTF-8 are written as U+FFFD.
std::string json_text_of_any(const nlohmann::json& json, int indent = -1);

/// The same in ASCII: other characters are written as \uXXXX.
std::string json_ascii(const nlohmann::json& json, int indent = -1);

}  // namespace lockstep
