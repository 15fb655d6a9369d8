#pragma once

#include <cstdint>

namespace lockstep {

/// The value of an f16 (IEEE 754 binary16) with these bits, as a float, which can represent it exactly.
float f16_value(std::uint16_t bits);

/// The value of a bf16 with these bits, which are the upper half of a float's.
float bf16_value(std::uint16_t bits);

}  // namespace lockstep
