// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tests/fuzz/ir.h"

namespace lockstep::fuzz {

/// The program of a seed: the same on every machine.
Program generate(std::uint64_t seed);

}  // namespace lockstep::fuzz
