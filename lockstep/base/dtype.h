// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace lockstep {

/// The type of an array's elements.
enum class DType : std::uint8_t {
  kBool,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kC128,
  kF8E4M3FN,
  kF8E5M2
};
inline constexpr std::size_t kNumDTypes = 17;

inline constexpr DType bool_ = DType::kBool, int8 = DType::kI8, int16 = DType::kI16, int32 = DType::kI32,
                       int64 = DType::kI64, uint8 = DType::kU8, uint16 = DType::kU16, uint32 = DType::kU32,
                       uint64 = DType::kU64, float16 = DType::kF16, bfloat16 = DType::kBF16,
                       float32 = DType::kF32, float64 = DType::kF64, complex64 = DType::kC64,
                       complex128 = DType::kC128, float8_e4m3fn = DType::kF8E4M3FN,
                       float8_e5m2 = DType::kF8E5M2;

enum class DTypeKind : std::uint8_t { kBool, kSigned, kUnsigned, kFloat, kComplex };

/// The properties of a dtype.
struct DTypeInfo {
  DType dtype;
  std::string_view name;        ///< as JAX prints it in a jaxpr: "f32"
  std::string_view numpy_name;  ///< "float32"
  std::string_view mlir_name;   ///< "f32", "ui32", "i1"
  std::uint8_t bytes;           ///< of one element in memory
  DTypeKind kind;
};

const DTypeInfo& info(DType dtype);

inline std::string_view name(DType dtype) { return info(dtype).name; }
std::optional<DType> dtype_named(std::string_view name);  ///< the one with this name(); nullopt for others
inline std::size_t size_of(DType dtype) { return info(dtype).bytes; }
inline bool is_floating(DType dtype) { return info(dtype).kind == DTypeKind::kFloat; }
inline bool is_integer(DType dtype) {
  return info(dtype).kind == DTypeKind::kSigned || info(dtype).kind == DTypeKind::kUnsigned;
}

/// Whether a derivative with respect to a value of this dtype exists.
inline bool is_inexact(DType dtype) { return is_floating(dtype) || info(dtype).kind == DTypeKind::kComplex; }
inline bool is_complex(DType dtype) { return info(dtype).kind == DTypeKind::kComplex; }

/// The dtype of the parts of complex numbers; another dtype is its own.
inline DType real_dtype(DType dtype) {
  return dtype == DType::kC128 ? DType::kF64 : dtype == DType::kC64 ? DType::kF32 : dtype;
}

/// The dtype of complex numbers that represent these: c128 for f64 and c128, otherwise c64.
inline DType complex_dtype(DType dtype) {
  return real_dtype(dtype) == DType::kF64 ? DType::kC128 : DType::kC64;
}

/// The limits of a floating dtype, as jnp.finfo.
struct FInfo {
  int nmant;        ///< bits of the fraction, without the leading one
  double eps;       ///< from 1 to the next number
  double max, min;  ///< the largest number and its negative
  double tiny;      ///< the smallest number of all digits
  bool has_infinity = true;
};

/// Complex dtypes have the limits of their parts. Throws DTypeError for another dtype.
const FInfo& finfo(DType dtype);

/// Whether the dtype can represent this integer. Dtypes that are not integers can, with rounding.
bool holds(DType dtype, std::int64_t value);

/// The dtype of positions in a dimension, and of counts, of up to `size`: i32, or i64 if i32 is too small.
inline DType place_dtype(std::int64_t size) { return holds(DType::kI32, size) ? DType::kI32 : DType::kI64; }

/// Whether T is std::complex of Part. The header of std::complex is large, so it is not included here.
template <class T, class Part>
concept ComplexOf = std::is_class_v<T> && sizeof(T) == 2 * sizeof(Part) && requires(const T& value) {
  requires std::is_same_v<typename T::value_type, Part>;
  requires std::is_same_v<decltype(value.real()), Part>;
  requires std::is_same_v<decltype(value.imag()), Part>;
};

/// The dtype whose elements have the C++ type T.
template <class T>
inline constexpr DType dtype_of = []() -> DType {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>)
    return DType::kBool;
  else if constexpr (std::is_same_v<U, float>)
    return DType::kF32;
  else if constexpr (std::is_same_v<U, double>)
    return DType::kF64;
  else if constexpr (ComplexOf<U, float>)
    return DType::kC64;
  else if constexpr (ComplexOf<U, double>)
    return DType::kC128;
  else if constexpr (std::is_integral_v<U> && std::is_signed_v<U>)
    return sizeof(U) == 1   ? DType::kI8
           : sizeof(U) == 2 ? DType::kI16
           : sizeof(U) == 4 ? DType::kI32
                            : DType::kI64;
  else if constexpr (std::is_integral_v<U>)
    return sizeof(U) == 1   ? DType::kU8
           : sizeof(U) == 2 ? DType::kU16
           : sizeof(U) == 4 ? DType::kU32
                            : DType::kU64;
  else
    static_assert(!sizeof(U), "no Lockstep dtype has elements of this C++ type");
}();

}  // namespace lockstep
