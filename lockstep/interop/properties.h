// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::interop {

/// The names of an operation's properties, in the order in which bytecode has them: that of the alphabet.
/// Null for an operation that has none, or is not known. "vhlo.reduce_v1" has {"dimensions"}.
const std::vector<std::string>* property_names(const std::string& operation);

}  // namespace lockstep::interop
