// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/base/dtype.h"

namespace lockstep {

/// The value of an f16 (IEEE 754 binary16) with these bits, as a float, which can represent it exactly.
float f16_value(std::uint16_t bits);

/// The value of a bf16 with these bits, which are the upper half of a float's.
float bf16_value(std::uint16_t bits);

/// The value of a number of 8 bits: of 4 bits of exponent, without infinities (f8_e4m3fn, up to 448), and of
/// 5 (f8_e5m2, the upper half of an f16's). Micikevicius et al., "FP8 Formats for Deep Learning" (2022).
float f8_e4m3fn_value(std::uint8_t bits);
float f8_e5m2_value(std::uint8_t bits);

/// The bits of the number next to the value, of two the even one. Beyond the largest number it is an
/// infinity, or, of f8_e4m3fn, a NaN, as XLA and NumPy's ml_dtypes have it.
std::uint16_t f16_bits(float value);
std::uint16_t bf16_bits(float value);
std::uint8_t f8_e4m3fn_bits(float value);
std::uint8_t f8_e5m2_bits(float value);

/// Whether it is a floating dtype narrower than f32, which C++ has no type for.
bool is_narrow_float(DType dtype);

/// The value of an element of such a dtype, at any address.
float narrow_float_value(DType dtype, const void* element);

}  // namespace lockstep
