// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>
#include <string>

#include "lockstep/array/array.h"

namespace lockstep {

/// The elements as NumPy prints them: 8 digits, aligned columns, for more than 1000 elements the first and
/// last three along each axis, lines of 75 characters. If the array is on several devices, a last line gives
/// the sharding. A tracer, or an array that is partly on other processes, prints as Array::to_string().
/// Blocks.
std::string array_str(const Array& x);

std::ostream& operator<<(std::ostream& out, const Array& x);

}  // namespace lockstep
