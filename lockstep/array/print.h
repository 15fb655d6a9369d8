#pragma once

#include <iosfwd>
#include <string>

#include "lockstep/array/array.h"

namespace lockstep {

/// The elements as NumPy prints them: 8 digits, columns aligned, of more than 1000 elements the first and
/// last three along each axis, lines of 75 characters. Where the array is spread over several devices, a last
/// line says how. A tracer, and what lies partly with other processes, has no elements to print: as
/// Array::to_string(). Blocks.
std::string array_str(const Array& x);

std::ostream& operator<<(std::ostream& out, const Array& x);

}  // namespace lockstep
