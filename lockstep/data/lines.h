#pragma once

#include <string>
#include <string_view>

#include "lockstep/data/source.h"

namespace lockstep::data {

/// The lines of a text file, {"text": u8[n]}, without their ends, "\n" or "\r\n". Makes an index of where
/// they begin.
SourcePtr lines(const std::string& url, IndexOptions index = {});

/// The objects of a JSONL file, one to a line; empty lines are left out. Makes an index. Record i has the
/// object's members as `fields_of_json` says.
SourcePtr jsonl(const std::string& url, IndexOptions index = {});

/// The members of a JSON object as fields: texts as u8[n], whole numbers as i64[], others as f64[], true and
/// false as bool[], arrays of numbers, also nested, as i64 or f64 of their shape, null not at all, other
/// arrays and objects as JSON text, u8[n]. Throws DataError where the text is no object.
Record fields_of_json(std::string_view text);

}  // namespace lockstep::data
