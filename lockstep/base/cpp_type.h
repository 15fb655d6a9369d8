// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "lockstep/base/dtype.h"
#include "lockstep/base/half.h"

namespace lockstep {

/// Calls f with std::type_identity<T>(), where T is the C++ type of the dtype's elements. T is void for a
/// floating dtype narrower than f32, which C++ has no type for.
template <class F>
decltype(auto) with_cpp_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kBool:
      return f(std::type_identity<bool>());
    case DType::kI8:
      return f(std::type_identity<std::int8_t>());
    case DType::kI16:
      return f(std::type_identity<std::int16_t>());
    case DType::kI32:
      return f(std::type_identity<std::int32_t>());
    case DType::kI64:
      return f(std::type_identity<std::int64_t>());
    case DType::kU8:
      return f(std::type_identity<std::uint8_t>());
    case DType::kU16:
      return f(std::type_identity<std::uint16_t>());
    case DType::kU32:
      return f(std::type_identity<std::uint32_t>());
    case DType::kU64:
      return f(std::type_identity<std::uint64_t>());
    case DType::kF32:
      return f(std::type_identity<float>());
    case DType::kF64:
      return f(std::type_identity<double>());
    case DType::kC64:
      return f(std::type_identity<std::complex<float>>());
    case DType::kC128:
      return f(std::type_identity<std::complex<double>>());
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3FN:
    case DType::kF8E5M2:
      break;
  }
  return f(std::type_identity<void>());
}

/// Calls f with the element at any address, in the C++ type of its dtype; with a float if there is no such
/// type.
template <class F>
decltype(auto) with_element(DType dtype, const void* element, F&& f) {
  return with_cpp_type(dtype, [&]<class T>(std::type_identity<T>) -> decltype(auto) {
    if constexpr (std::is_void_v<T>) {
      return f(narrow_float_value(dtype, element));
    } else if constexpr (std::is_same_v<T, bool>) {
      return f(*static_cast<const char*>(element) != 0);
    } else {
      T value;
      std::memcpy(&value, element, sizeof value);
      return f(value);
    }
  });
}

}  // namespace lockstep
