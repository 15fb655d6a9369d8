// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/program/aval.h"

namespace lockstep {

/// Dense row-major elements in host memory, as NumPy prints them (lockstep/array/print.h).
std::string elements_str(const void* data, DType dtype, const Shape& shape);

}  // namespace lockstep
