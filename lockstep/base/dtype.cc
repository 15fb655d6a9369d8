// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/dtype.h"

#include <array>
#include <limits>

#include "lockstep/base/fail.h"

namespace lockstep {

namespace {

constexpr auto table = [] {
  using K = DTypeKind;
  return std::array<DTypeInfo, kNumDTypes>{{
      {DType::kBool, "bool", "bool", "i1", 1, K::kBool},
      {DType::kI8, "i8", "int8", "i8", 1, K::kSigned},
      {DType::kI16, "i16", "int16", "i16", 2, K::kSigned},
      {DType::kI32, "i32", "int32", "i32", 4, K::kSigned},
      {DType::kI64, "i64", "int64", "i64", 8, K::kSigned},
      {DType::kU8, "u8", "uint8", "ui8", 1, K::kUnsigned},
      {DType::kU16, "u16", "uint16", "ui16", 2, K::kUnsigned},
      {DType::kU32, "u32", "uint32", "ui32", 4, K::kUnsigned},
      {DType::kU64, "u64", "uint64", "ui64", 8, K::kUnsigned},
      {DType::kF16, "f16", "float16", "f16", 2, K::kFloat},
      {DType::kBF16, "bf16", "bfloat16", "bf16", 2, K::kFloat},
      {DType::kF32, "f32", "float32", "f32", 4, K::kFloat},
      {DType::kF64, "f64", "float64", "f64", 8, K::kFloat},
      {DType::kC64, "c64", "complex64", "complex<f32>", 8, K::kComplex},
      {DType::kC128, "c128", "complex128", "complex<f64>", 16, K::kComplex},
      {DType::kF8E4M3FN, "f8_e4m3fn", "float8_e4m3fn", "f8E4M3FN", 1, K::kFloat},
      {DType::kF8E5M2, "f8_e5m2", "float8_e5m2", "f8E5M2", 1, K::kFloat},
  }};
}();

}  // namespace

const DTypeInfo& info(DType dtype) { return table[static_cast<std::size_t>(dtype)]; }

std::optional<DType> dtype_named(std::string_view name) {
  for (const DTypeInfo& each : table)
    if (each.name == name) return each.dtype;
  return std::nullopt;
}

const FInfo& finfo(DType dtype) {
  using Single = std::numeric_limits<float>;
  using Double = std::numeric_limits<double>;
  constexpr double kSingle = Single::max(), kBrain = 0x1.FEp127;
  static constexpr FInfo kF16 = {10, 0x1p-10, 65504, -65504, 0x1p-14};
  static constexpr FInfo kBF16 = {7, 0x1p-7, kBrain, -kBrain, Single::min()};
  static constexpr FInfo kF32 = {23, Single::epsilon(), kSingle, -kSingle, Single::min()};
  static constexpr FInfo kF64 = {52, Double::epsilon(), Double::max(), Double::lowest(), Double::min()};
  static constexpr FInfo kF8E4M3FN = {3, 0x1p-3, 448, -448, 0x1p-6, false};
  static constexpr FInfo kF8E5M2 = {2, 0x1p-2, 57344, -57344, 0x1p-14};
  switch (real_dtype(dtype)) {
    case DType::kF16:
      return kF16;
    case DType::kBF16:
      return kBF16;
    case DType::kF32:
      return kF32;
    case DType::kF64:
      return kF64;
    case DType::kF8E4M3FN:
      return kF8E4M3FN;
    case DType::kF8E5M2:
      return kF8E5M2;
    default:
      fail<DTypeError>("[finfo] expected a floating or complex dtype, got {}", name(dtype));
  }
}

bool holds(DType dtype, std::int64_t value) {
  const int bits = 8 * static_cast<int>(size_of(dtype));
  switch (info(dtype).kind) {
    case DTypeKind::kUnsigned:
      return value >= 0 && (bits == 64 || value < std::int64_t{1} << bits);
    case DTypeKind::kSigned:
      return bits == 64 ||
             (value >= -(std::int64_t{1} << (bits - 1)) && value < std::int64_t{1} << (bits - 1));
    default:
      return true;
  }
}

}  // namespace lockstep
