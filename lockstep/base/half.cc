// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/half.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "lockstep/base/fail.h"

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

float f8_e4m3fn_value(std::uint8_t bits) {
  const int exponent = bits >> 3 & 0xF, fraction = bits & 7;
  const float magnitude = (bits & 0x7F) == 0x7F ? std::nanf("")
                          : exponent == 0       ? std::ldexp(static_cast<float>(fraction), -9)
                                                : std::ldexp(static_cast<float>(fraction + 8), exponent - 10);
  return bits & 0x80 ? -magnitude : magnitude;
}

float f8_e5m2_value(std::uint8_t bits) { return f16_value(static_cast<std::uint16_t>(bits << 8)); }

std::uint16_t f16_bits(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  bits &= 0x7FFF'FFFF;
  if (std::isnan(value)) return sign | 0x7E00;
  if (bits >= 0x477F'F000) return sign | 0x7C00;  // 65520, half of the way to 2^16, and more
  if (bits < 0x3880'0000) {                       // below 2^-14: the last bit of a number near 1/2 is 2^-24
    const float sum = std::bit_cast<float>(bits) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3F00'0000));
  }
  bits += 0xFFF + (bits >> 13 & 1);
  return static_cast<std::uint16_t>(sign | (bits - 0x3800'0000) >> 13);
}

std::uint16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

namespace {

/// The bits without the sign of a number with `digits` bits of fraction and this bias, of a finite magnitude;
/// they go on above the largest number as if there were larger ones.
int rounded_bits(float magnitude, int digits, int bias) {
  const int exponent = magnitude == 0 ? 1 - bias : std::max(std::ilogb(magnitude), 1 - bias);
  // In units of the last digit, which is exact. A sum of all ones carries into the exponent.
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, digits - exponent)));
  return ((exponent + bias - 1) << digits) + units;
}

}  // namespace

std::uint8_t f8_e4m3fn_bits(float value) {
  const int sign = std::signbit(value) ? 0x80 : 0, largest = 0x7E;
  const int bits = std::isfinite(value) ? rounded_bits(std::abs(value), 3, 7) : largest + 1;
  return static_cast<std::uint8_t>(sign | std::min(bits, largest + 1));
}

std::uint8_t f8_e5m2_bits(float value) {
  const int sign = std::signbit(value) ? 0x80 : 0, infinity = 0x7C;
  const int bits = std::isnan(value)   ? 0x7E
                   : std::isinf(value) ? infinity
                                       : std::min(rounded_bits(std::abs(value), 2, 15), infinity);
  return static_cast<std::uint8_t>(sign | bits);
}

bool is_narrow_float(DType dtype) { return is_floating(dtype) && size_of(dtype) < sizeof(float); }

float narrow_float_value(DType dtype, const void* element) {
  std::uint16_t bits = 0;  // little-endian: of one byte it is the low one
  std::memcpy(&bits, element, size_of(dtype));
  switch (dtype) {
    case DType::kF16:
      return f16_value(bits);
    case DType::kBF16:
      return bf16_value(bits);
    case DType::kF8E4M3FN:
      return f8_e4m3fn_value(static_cast<std::uint8_t>(bits));
    case DType::kF8E5M2:
      return f8_e5m2_value(static_cast<std::uint8_t>(bits));
    default:
      fail("narrow_float_value() does not take {}", name(dtype));
  }
}

}  // namespace lockstep
