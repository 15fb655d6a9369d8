// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep {

/// How deep the brackets of a text of JSON are nested, without those in strings. Code that reads JSON
/// from files that may be damaged or forged checks it first: copying or writing a deep value recurses.
std::size_t json_depth(std::string_view text);

}  // namespace lockstep
