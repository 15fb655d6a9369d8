#include "lockstep/base/dtype.h"

#include <array>

namespace lockstep {

namespace {

constexpr auto table = [] {
  using K = DTypeKind;
  return std::array<DTypeInfo, 14>{{
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
  }};
}();

}  // namespace

const DTypeInfo& info(DType dtype) { return table[static_cast<std::size_t>(dtype)]; }

std::optional<DType> dtype_named(std::string_view name) {
  for (const DTypeInfo& each : table)
    if (each.name == name) return each.dtype;
  return std::nullopt;
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
