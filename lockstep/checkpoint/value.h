#pragma once

#include <map>
#include <string>

#include "lockstep/tree/visitor.h"

namespace lockstep::checkpoint {

/// What stands in a tree beside its arrays.
using Value = tree::Value;

/// By their paths in the tree.
using Values = std::map<std::string, Value>;

/// "a integer", "text", ...
std::string kind_of(const Value& value);

/// For people: true, 12, 0.5, "text".
std::string to_string(const Value& value);

}  // namespace lockstep::checkpoint
