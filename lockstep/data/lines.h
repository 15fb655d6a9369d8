// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "lockstep/data/source.h"

namespace lockstep::data {

/// The lines of a text file, {"text": u8[n]}, without the line ends "\n" or "\r\n". Makes an index of their
/// beginnings.
SourcePtr lines(const std::string& url, IndexOptions index = {});

/// The objects of a JSONL file, one in each line; empty lines are skipped. Makes an index. Record i has the
/// object's members as fields, see `fields_of_json`.
SourcePtr jsonl(const std::string& url, IndexOptions index = {});

/// The members of a JSON object as fields: strings as u8[n], integers as i64[], other numbers as f64[], true
/// and false as bool[], arrays of numbers, also nested, as i64 or f64 of their shape; null is left out; other
/// arrays and objects are JSON text, u8[n]. Throws DataError if the text is not an object.
Record fields_of_json(std::string_view text);

}  // namespace lockstep::data
