#pragma once

#include <span>
#include <string_view>

#include "lockstep/base/dtype.h"

namespace lockstep {

/// What decides about the dtype of a result: a dtype, and whether it came from a C++ number ("weak") and so
/// gives way to that of an array.
struct ElementType {
  DType dtype = DType::kF32;
  bool weak = false;
  bool operator==(const ElementType&) const = default;
};

/// The dtype in which operands of these dtypes meet: JAX's "type promotion semantics", the least upper bound
/// in
///
///   bool → int* → u8 → u16 → u32 → u64 → float* → bf16, f16 → f32 → f64
///          int* → i8 → i16 → i32 → i64 → float*         f32 → c64
///          u8 → i16, u16 → i32, u32 → i64
///
/// where int* and float* are weak. What ends at int* is a weak i32, at float* a weak f32, whatever the
/// widths: nothing but an f64 operand makes an f64. At least one. Throws DTypeError, naming the operation,
/// for f64 with c64, of which no dtype here holds both.
ElementType promote(std::string_view operation, std::span<const ElementType> types);

/// The dtype of results that are not whole numbers: bool and integers of up to 32 bits give f32, 64-bit
/// integers f64 (a weak integer a weak f32), and floating and complex dtypes stay.
ElementType to_inexact(ElementType type);

}  // namespace lockstep
