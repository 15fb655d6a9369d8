#pragma once

#include <cstdint>

namespace lockstep {

/// The number that the bits of an f16 (IEEE 754 binary16) stand for; every one is a float.
float f16_value(std::uint16_t bits);

/// The number that the bits of a bf16 stand for: the upper half of a float's.
float bf16_value(std::uint16_t bits);

}  // namespace lockstep
