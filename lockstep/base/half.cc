#include "lockstep/base/half.h"

#include <bit>
#include <cmath>

namespace lockstep {

float f16_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                          : exponent == 0x1F
                              ? (fraction == 0 ? HUGE_VALF : std::nanf(""))
                              : std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

float bf16_value(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

}  // namespace lockstep
