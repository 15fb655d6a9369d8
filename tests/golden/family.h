// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "lockstep/array/array.h"
#include "tests/golden/stored.h"

/// Parts that the tests of whole families share: two CPU devices, the inputs of their programs, and what was
/// compared.
namespace lockstep::golden {

/// The numbers of layers.py, optimizers.py and control.py.
Array numbers(const Shape& shape, int seed);

/// The names that expect_named has compared, to find those that were not.
std::set<std::string>& compared();

/// Each element of x as the file has it by this name.
void expect_named(const std::string& name, const Array& found, const Tolerance& tolerance);

}  // namespace lockstep::golden
