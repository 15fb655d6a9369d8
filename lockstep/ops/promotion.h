// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "lockstep/base/dtype.h"

namespace lockstep {

/// The input of dtype promotion: a dtype, and whether it came from a C++ number ("weak"), so that an array's
/// dtype overrides it.
struct ElementType {
  DType dtype = DType::kF32;
  bool weak = false;
  bool operator==(const ElementType&) const = default;
};

/// The common dtype of these dtypes, by JAX's "type promotion semantics": the least upper bound in
///
///   bool → int* → u8 → u16 → u32 → u64 → float* → bf16, f16 → f32 → f64 → c128
///          int* → i8 → i16 → i32 → i64 → float*         f32 → c64 → c128
///                                         float* → f8_e4m3fn, f8_e5m2
///          u8 → i16, u16 → i32, u32 → i64
///
/// where int* and float* are weak. A result of int* is a weak i32, of float* a weak f32, whatever the widths;
/// only an f64 operand gives an f64. At least one type is required. Throws DTypeError, with the operation's
/// name, for a float of 8 bits with another floating or complex dtype, for which JAX has none either.
ElementType promote(std::string_view operation, std::span<const ElementType> types);

/// The dtype of results that are not integers: bool and integers of up to 32 bits give f32, 64-bit integers
/// f64 (a weak integer a weak f32); floating and complex dtypes are unchanged.
ElementType to_inexact(ElementType type);

/// The dtype in which sums and statistics of this floating dtype are computed: f32 for the narrower ones.
DType at_least_f32(DType dtype);

}  // namespace lockstep
