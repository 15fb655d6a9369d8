// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "lockstep/tree/visitor.h"

namespace lockstep::checkpoint {

/// A value in a tree that is not an array.
using Value = tree::Value;

/// By path in the tree.
using Values = std::map<std::string, Value>;

/// "a integer", "text", ...
std::string kind_of(const Value& value);

/// For display: true, 12, 0.5, "text".
std::string to_string(const Value& value);

}  // namespace lockstep::checkpoint
